"""Write flows to Parquet and .pb files: names, formats, places, rotation and retention."""
