"""Parts of benches and reports that belong to switches that reduce and their endpoints."""
