"""Room 9: exporting. A trained network with its preprocessing as one file that needs nothing of this package."""
