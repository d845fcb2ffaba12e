"""What the tests of afl share with yours: contract suites for every port.

Needs pytest, which is not a dependency of the package.
"""
