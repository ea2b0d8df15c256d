# Two commands are all a fresh clone needs: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint bench docs schema clean

$(VENV)/.installed: requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.lock
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
	$(BIN)/python benchmarks/prediction.py

docs: $(VENV)/.installed
	$(BIN)/mkdocs build --strict --site-dir build/site

schema: $(VENV)/.installed
	$(BIN)/python -c "import json; from cotune.jobfile.file import json_schema; \
	print(json.dumps(json_schema(), indent=2, sort_keys=True))" > docs/cotune.schema.json

clean:
	rm -rf $(VENV) .cotune build dist
