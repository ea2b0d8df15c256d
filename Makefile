# Two commands are all a fresh clone needs: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint bench docs schema lock sbom audit dist wheel clean

# torch first, as pip finds it here: its CPU build, or with the CUDA packages that belong to it.
$(VENV)/.installed: requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check "$$(grep -o '^torch==[0-9.]*' requirements.lock)"
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --editable .
	touch $@

demo: $(VENV)/.installed
	$(BIN)/python examples/demo.py

test: $(VENV)/.installed
	$(BIN)/python -m pytest -n 2 --dist loadgroup

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.installed
	$(BIN)/python benchmarks/planning.py
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/engine_stress.py
	$(BIN)/python benchmarks/store.py

docs: $(VENV)/.installed
	$(BIN)/mkdocs build --strict --site-dir build/site

schema: $(VENV)/.installed
	$(BIN)/python -c "import json; from cotune.jobfile.file import json_schema; \
	print(json.dumps(json_schema(), indent=2, sort_keys=True))" > docs/cotune.schema.json

lock: $(VENV)/.installed
	$(BIN)/python .ci/lock_hashes.py

# Tools of the supply chain have an environment of their own: what they need is no part of ours.
$(VENV)-tools/.installed:
	$(PYTHON) -m venv $(VENV)-tools
	$(VENV)-tools/bin/pip install --quiet --disable-pip-version-check cyclonedx-bom==7.5.0 pip-audit==2.10.1 build==1.6.1 twine==7.0.0
	touch $@

sbom: $(VENV)-tools/.installed
	mkdir -p build
	$(VENV)-tools/bin/cyclonedx-py requirements --output-reproducible --pyproject pyproject.toml \
	--output-file build/sbom.cdx.json requirements-runtime.lock

audit: $(VENV)-tools/.installed
	.ci/audit.sh $(VENV)-tools/bin/pip-audit

dist: $(VENV)-tools/.installed
	rm -rf dist
	$(VENV)-tools/bin/python -m build --outdir dist . >/dev/null
	$(VENV)-tools/bin/twine check --strict dist/*

# What PyPI would get, in an environment of its own; torch and what draws come from ours, to install them once.
wheel: $(VENV)/.installed dist
	rm -rf $(VENV)-wheel
	$(PYTHON) -m venv $(VENV)-wheel
	$(VENV)-wheel/bin/pip install --quiet --disable-pip-version-check dist/*.whl
	$(BIN)/python -c "import site; print(site.getsitepackages()[0])" > "$$(echo $(VENV)-wheel/lib/python*/site-packages)/ours.pth"
	cd dist && ../$(VENV)-wheel/bin/python ../examples/demo.py

clean:
	rm -rf $(VENV) $(VENV)-tools $(VENV)-wheel .cotune build dist
