"""The myengine backend of Enginebay."""
