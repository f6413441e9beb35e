//! Other people's libraries on tasks of the runtime: the tests and examples beside this file.
