"""What all tests have: the application beside this directory, and a broker without delays."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
