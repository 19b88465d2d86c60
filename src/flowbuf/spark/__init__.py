"""Read captures and Kafka topics as Spark DataFrames. Requires pyspark 4 or newer.

Example:

    spark.dataSource.register(flowbuf.spark.FlowbufDataSource)
    flows = spark.read.format("flowbuf").option("enable", "src_mac,dst_mac").load("captures/*.pcap.gz")
    stream = spark.readStream.format("flowbuf").options(kafka="localhost:9092", topic="flows").load()

Flows reach Spark as Arrow columns, never as Python rows. `flowbuf.targets.spark` defines their types. The
options are those of the command line, with _ in place of -; docs/how-to/spark.md lists them.
"""

from flowbuf.spark.source import FlowbufDataSource

__all__ = ["FlowbufDataSource"]
