"""Code in the idioms of public projects, in our own words: with mistakes, and without.

Each wrong snippet has the code that the doctor must find, and a part of the fix that is right.
"""

from __future__ import annotations

from doctor import flow, geometry, idioms, points

# (project and idiom): (code, part of the fix, source)
WRONG = geometry.WRONG | flow.WRONG | points.WRONG | idioms.WRONG
RIGHT = geometry.RIGHT | flow.RIGHT | points.RIGHT | idioms.RIGHT
