# SPDX-License-Identifier: Apache-2.0
"""The version of the distribution, read by the build and by ``foldwire --version``."""

__all__ = ["__version__"]

__version__ = "0.2.0"
