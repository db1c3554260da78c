import json

import mocks
import pytest

from classwise.stats import sanity

GOOD = {"zero_gradients": 0.0, "randomised": 0.0, "batch_dependent": 1e-6, "spread": 1.0, "probabilities": False, "training": []}
GOOD |= {"outside": 0, "asked": 200, "farthest": 0.1, "darkest": 0.0, "brightest": 1.0}


@pytest.mark.parametrize(
    ("failed", "warning"),
    [
        ({"unmoved": 0.02}, ("left images unchanged", "2%")),
        ({"zero_gradients": 0.5}, ("gradients vanish", "50%")),
        ({"randomised": 0.2}, ("predictions change when repeated", "0.2")),
        ({"batch_dependent": 0.2}, ("predictions depend on the batch", "0.2")),
        ({"probabilities": True}, ("outputs look like probabilities", "summing")),
        ({"training": ["norm"]}, ("train mode", "norm")),
        ({"outside": 3}, ("lie outside the ball", "3")),
        ({"broken_by": {"apgd-ce": 3, "square": 40}}, ("that no white-box attack breaks", "40 of 400")),
    ],
)
def test_a_failed_sanity_check_is_a_warning(failed, warning):
    data = mocks.dataset("outcomes 1").assign_attrs(checks=json.dumps(GOOD | failed))
    ((sentence, figure),) = sanity.stored_warnings(data).items()
    assert warning[0] in sentence
    assert warning[1] in figure


@pytest.mark.parametrize("sign", [{"zero_gradients": 1.0}, {"zero_gradients": 1.0, "saturated": 1.0}])
def test_one_correctly_classified_image_without_a_gradient_is_no_warning(sign):
    checks = GOOD | sign | {"asked": 50}
    assert sanity.sanity_warnings(checks | {"right": 1}, 50) == {}
    assert sanity.sanity_warnings(checks | {"right": 0, "zero_gradients": 0.0}, 50) == {}
    (figure,) = sanity.sanity_warnings(checks | {"right": 30}, 50).values()
    assert figure == "100% of 30 correctly classified images"


def test_without_failed_checks_there_are_no_warnings():
    data = mocks.dataset("outcomes 1")
    assert sanity.stored_warnings(data) == {}
    assert sanity.stored_warnings(data.assign_attrs(checks=json.dumps(GOOD | {"broken_by": {"apgd-ce": 3, "square": 1}}))) == {}
