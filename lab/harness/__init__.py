"""What every section of the benchmark uses: processes, load, peers, the gateway and the report."""
