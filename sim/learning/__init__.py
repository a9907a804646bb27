# SPDX-License-Identifier: Apache-2.0
"""Training by any all-reduce: networks that learn, and what compression does to accuracy."""
