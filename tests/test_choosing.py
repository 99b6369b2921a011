"""The choice of cases for the ordinary run."""

import choosing


def case(name, seconds, *kernels):
    return choosing.Case(name, seconds, frozenset(kernels))


def test_every_function_keeps_a_case_and_costs_no_kernel_that_others_do_not_need():
    cases = [
        case("a.py::only", 9, "x"),
        case("a.py::some[1]", 0.1, "y"),
        case("a.py::some[2]", 0.1, "x"),
        case("a.py::some[3]", 9, "x"),
        case("a.py::some[4]", 0.1, "x", "y"),
        case("a.py::own[a-b]", 0.2, "p", "q"),
        case("a.py::own[c[0]]", 0.2, "r"),
        case("a.py::free[1]", 0.1),
        case("a.py::free[2]", 0.1),
    ]
    assert choosing.choose(cases) == {"a.py::own": ["a-b"], "a.py::some": ["1", "3", "4"]}
    assert choosing.choose(reversed(cases)) == choosing.choose(cases)


def test_listed_cases_have_the_names_that_pytest_gives():
    assert all(name.endswith("]") and "::" in name for name in choosing.costly())
