"""Views of results as text, pages, pictures, traces and graph files.

A view computes nothing; a number that it shows is a field of what it is given.
"""
