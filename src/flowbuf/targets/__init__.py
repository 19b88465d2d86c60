"""Types and tables of a schema in other systems: Arrow, ClickHouse, Spark, and text."""
