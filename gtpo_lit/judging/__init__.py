"""Judges: functions that score one answer in a worker process that can be killed.

They see nothing of the rest of the package, so that a worker starts without torch. A judge is
named by its import path, ``"package.module:function"``; it takes keyword arguments and returns a
number. Its module is imported before the clock runs, and its `prepare_judge()` called if it has
one: for what takes time at the first use.
"""
