# SPDX-License-Identifier: Apache-2.0
"""Parts of benches and reports that belong to an engine: a folder for each, under its name.

Benches ask for them by `bench.records.registered`, so that none names engines; an engine without a
part is not in the benches that ask for it.
"""
