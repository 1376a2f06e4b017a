"""The Agrawal stream: loan applicants, ten class functions.

Agrawal, Imielinski, Swami: Database mining: a performance perspective. IEEE TKDE 5(6), 1993; distributions and
perturbation as in MOA's AgrawalGenerator, with its attributes and functions (counted from 0 here). One deviation: MOA
clips a perturbed house value at 135,000, a tenth of the largest one and below most; we clip at 1,350,000.
"""

from functools import partial

import numpy as np

from riparian.models.kernels.kernel import kernel
from riparian.models.kernels.randomness import below, seeded, uniform
from riparian.models.streams import EndlessStream

NAMES = ("salary", "commission", "age", "elevel", "car", "zipcode", "hvalue", "hyears", "loan")
N_VALUES = (0, 0, 0, 5, 20, 9, 0, 0, 0)
SALARY, COMMISSION, AGE, ELEVEL, CAR, ZIPCODE, HVALUE, HYEARS, LOAN = range(9)


def source(seed: int = 0, *, function: int = 0, perturbation: float = 0.05) -> EndlessStream:
    """Applicants; class 0 is the paper's group A. Values are moved after the class was decided; function 0 is the first
    of the paper."""
    return EndlessStream(partial(_fill, seeded(seed), function, perturbation), N_VALUES, NAMES, 2)


@kernel
def _fill(state, function, perturbation, x, y):
    """Write all rows of `x` and `y`; mutates the random state too."""
    for i in range(len(x)):
        row = x[i]
        row[SALARY] = 20000.0 + 130000.0 * uniform(state)
        commission = 10000.0 + 65000.0 * uniform(state)  # always drawn: rows do not shift with the salary
        row[COMMISSION] = 0.0 if row[SALARY] >= 75000.0 else commission
        row[AGE] = 20.0 + below(state, 61)
        row[ELEVEL] = below(state, 5)
        row[CAR] = below(state, 20)
        row[ZIPCODE] = below(state, 9)
        row[HVALUE] = (9.0 - row[ZIPCODE]) * 100000.0 * (0.5 + uniform(state))
        row[HYEARS] = 1.0 + below(state, 30)
        row[LOAN] = 500000.0 * uniform(state)
        y[i] = classify(function, row)
        if perturbation > 0.0:
            row[SALARY] = _perturb(state, row[SALARY], 130000.0, 20000.0, 150000.0, perturbation)
            if row[COMMISSION] > 0.0:
                row[COMMISSION] = _perturb(state, row[COMMISSION], 65000.0, 10000.0, 75000.0, perturbation)
            row[AGE] = np.rint(_perturb(state, row[AGE], 60.0, 20.0, 80.0, perturbation))
            spread = (9.0 - row[ZIPCODE]) * 100000.0
            row[HVALUE] = _perturb(state, row[HVALUE], spread, 0.0, 1350000.0, perturbation)
            row[HYEARS] = np.rint(_perturb(state, row[HYEARS], 29.0, 1.0, 30.0, perturbation))
            row[LOAN] = _perturb(state, row[LOAN], 500000.0, 0.0, 500000.0, perturbation)


@kernel
def _perturb(state, value, spread, low, high, perturbation):
    moved = value + spread * (2.0 * (uniform(state) - 0.5)) * perturbation
    return min(max(moved, low), high)


@kernel
def _inside(value, low, high):
    return low <= value <= high


@kernel
def classify(function, row):
    """The class, 0 (group A) or 1, of an applicant by one of the ten functions. row : (9,) float64."""
    salary, age, loan, elevel = row[SALARY], row[AGE], row[LOAN], row[ELEVEL]
    total = salary + row[COMMISSION]
    young, middle = age < 40.0, 40.0 <= age < 60.0
    if function == 0:
        a = not middle
    elif function == 1 or function == 5:
        income = salary if function == 1 else total
        if young:
            a = _inside(income, 50000.0, 100000.0)
        elif middle:
            a = _inside(income, 75000.0, 125000.0)
        else:
            a = _inside(income, 25000.0, 75000.0)
    elif function == 2:
        if young:
            a = elevel <= 1.0
        elif middle:
            a = _inside(elevel, 1.0, 3.0)
        else:
            a = elevel >= 2.0
    elif function == 3:
        if young:
            low = 25000.0 if elevel <= 1.0 else 50000.0
        elif middle:
            low = 50000.0 if _inside(elevel, 1.0, 3.0) else 75000.0
        else:
            low = 50000.0 if elevel >= 2.0 else 25000.0
        a = _inside(salary, low, low + 50000.0)
    elif function == 4:
        if young:
            low = 100000.0 if _inside(salary, 50000.0, 100000.0) else 200000.0
        elif middle:
            low = 200000.0 if _inside(salary, 75000.0, 125000.0) else 300000.0
        else:
            low = 300000.0 if _inside(salary, 25000.0, 75000.0) else 100000.0
        a = _inside(loan, low, low + 200000.0)
    else:
        disposable = 2.0 * total / 3.0
        if function == 6:
            disposable -= loan / 5.0 + 20000.0
        elif function == 7:
            disposable -= 5000.0 * elevel + 20000.0
        elif function == 8:
            disposable -= 5000.0 * elevel + loan / 5.0 + 10000.0
        else:
            equity = row[HVALUE] * max(row[HYEARS] - 20.0, 0.0) / 10.0
            disposable += equity / 5.0 - 5000.0 * elevel - 10000.0
        a = disposable > 0.0
    return 0.0 if a else 1.0
