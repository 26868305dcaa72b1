import yaml
from . import deeper
