# SPDX-License-Identifier: Apache-2.0
"""Touchstone's challenges as Inspect AI tasks. _registry.py registers them, tasks.py defines them."""
