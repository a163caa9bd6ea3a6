"""Python runs this first in every process that Java starts for the tests.

Spark puts the sources of pyspark and py4j, in zips, before the installed packages: each process
would compile them anew, for a second. What is installed is the same.
"""

import sys

sys.path[:] = [place for place in sys.path if not place.endswith((".zip", ".jar"))]
