# make test: the public cases. The judge asks many more, with bounds of its own.
PYTHON ?= python3

.PHONY: test
test:
	$(PYTHON) selftest.py
