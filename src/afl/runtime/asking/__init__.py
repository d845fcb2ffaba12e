"""What stores of `afl.runtime.persistence.PersistenceAPI` answer alike.

Each part says in a protocol which functions it asks; a store gives the module that has them.
"""
