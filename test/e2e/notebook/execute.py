"""Runs the cells that are given as JSON on standard input in a new kernel, and prints the outputs of each as JSON."""

import json
import sys

import nbformat
from nbclient import NotebookClient

cells = [nbformat.v4.new_code_cell(source) for source in json.load(sys.stdin)]
notebook = nbformat.v4.new_notebook(cells=cells)
NotebookClient(notebook, timeout=120, kernel_name="python3", allow_errors=True).execute()
print(json.dumps([cell.outputs for cell in notebook.cells]))
