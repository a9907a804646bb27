"""Parts of benches and reports that belong to the smart NIC."""
