"""Tests of records that few exporters send: rare records of sFlow samples, layer 2, PSAMP."""
