"""The form that attacks networks in the page: opened from a file in a real browser, and compared with torch and the package."""

import re
from collections import Counter

import browser
import numpy as np
import pytest
import torch
from playwright.sync_api import expect
from torch.nn.functional import cross_entropy

from classwise import runs
from classwise.attacks import FGSM, PGD
from classwise.attacks.balls import Linf
from classwise.attacks.pgd import STARTS, predict
from classwise.attacks.pgd_variants import TargetedPGD, TemperaturePGD
from classwise.charts import attack_form
from classwise.core.errors import UserError
from classwise.core.spec import Evaluation
from classwise.papers import home, registry
from classwise.papers.scales import READ_ONLY
from classwise.runs.compute.networks import network_of

SPECS = {name: registry.training("quick", name, 0) for name in home.ATTACKED}
RADIUS = 0.2
# A little beyond the radius of the training, where each attack breaks more than a tenth whichever processor trained the network.
BEYOND = 0.22
# The attacks of the page as it calls them and as the package does.
ATTACKS = {
    "fgsm": ({"steps": 1, "rate": 1, "started": False}, FGSM()),
    "pgd": ({"steps": 20, "rate": 2.5, "started": True}, PGD(steps=20)),
    "targeted": ({"steps": 20, "rate": 2.5, "started": True, "target": 3}, TargetedPGD(target=3)),
    "temperature": ({"steps": 20, "rate": 2.5, "started": True, "inverse": 5}, TemperaturePGD(steps=20, inverse=5.0)),
}
# What the page computes of all images: logits and gradients without an attack, and the predictions after one.
COMPUTE = """([name, images, starts, options]) => {
  const { network, inputGradient, pgd, argmax } = window.classwiseAttacks;
  const data = JSON.parse(document.querySelector(".attack-form script").textContent);
  const one = network(data.networks[name]), truth = data.truth;
  const all = images.map((pixels, place) => inputGradient(one, pixels, truth[place]));
  const after = options && images.map((pixels, place) => {
    const { logits } = pgd(one, pixels, truth[place], { ...options, start: options.started ? starts[place] : pixels });
    return argmax(logits[logits.length - 1]);
  });
  return [all.map(({ logits }) => [...logits]), all.map(({ gradient }) => [...gradient]), after];
}"""


# How many pixels of a drawing are not black.
INKED = "canvas => canvas.getContext('2d').getImageData(0, 0, 8, 8).data.filter((one, place) => place % 4 === 0 && one).length"


@pytest.fixture(scope="module")
def scenes():
    return runs.scenes(SPECS["pgd-at"], Evaluation(attack="pgd-20"))


@pytest.fixture(scope="module")
def visit(program, scenes, tmp_path_factory):
    path = tmp_path_factory.mktemp("form") / "form.html"
    form = attack_form.attack_form(runs.layers(list(SPECS.values())), scenes, str(RADIUS))
    head = '<html lang="en"><head><meta charset="utf-8"><title>form</title><meta name="viewport" content="width=device-width">'
    path.write_text(f"<!doctype html>{head}</head><body><main><h1>form</h1>{form}</main></body></html>", encoding="utf-8")
    with browser.launched(program) as chromium:
        yield lambda *how: browser.opened(chromium, path, *how)


@pytest.fixture
def page(visit):
    with visit() as opened:
        yield opened


def tensors(scenes):
    return torch.from_numpy(scenes.pixels.values), torch.from_numpy(scenes.truth.values)


@pytest.mark.parametrize("name", SPECS)
def test_logits_and_gradients_in_the_page_are_those_of_torch(page, scenes, name):
    x, y = tensors(scenes)
    network = network_of(SPECS[name]).cpu()
    x.requires_grad_()
    logits = network(x)
    (gradient,) = torch.autograd.grad(cross_entropy(logits, y, reduction="sum"), x)
    found, slopes, _ = page.evaluate(COMPUTE, [name, x.detach().flatten(1).tolist(), [], None])
    assert np.abs(np.array(found) - logits.detach().numpy()).max() < 1e-4
    assert np.abs(np.array(slopes) - gradient.flatten(1).numpy()).max() < 1e-3
    assert gradient.abs().max() > 0.1


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("name", SPECS)
def test_what_a_network_predicts_after_an_attack_in_the_page_is_what_it_predicts_after_that_of_the_package(
    page, scenes, name, attack
):
    x, y = tensors(scenes)
    network, ball, (options, ours) = network_of(SPECS[name]).cpu(), Linf(BEYOND), ATTACKS[attack]
    starts = STARTS["uniform"](x, ball, torch.Generator().manual_seed(0)).flatten(1).tolist()
    expected = predict(network, ours(network, x, y, ball, torch.Generator().manual_seed(0)))
    given = [name, x.flatten(1).tolist(), starts, {**options, "radius": BEYOND}]
    _, _, after = page.evaluate(COMPUTE, given)
    others = y.numpy() != options.get("target")  # the package starts anew for images of the target
    assert np.mean((np.array(after) == expected.numpy())[others]) >= 0.99
    assert np.mean(expected.numpy() != y.numpy()) > 0.1


def test_attacking_all_classes_counts_what_falls_and_names_the_weakest(page, scenes):
    x, y = tensors(scenes)
    network = network_of(SPECS["trades"]).cpu()
    right = predict(network, x) == y
    fallen = ~right | (predict(network, FGSM()(network, x, y, Linf(0.3), torch.Generator())) != y)
    page.locator("[name=network]").select_option("trades")
    page.locator("[name=attack]").select_option("fgsm")
    page.locator("[name=radius]").fill("0.3")
    page.locator(".all-classes").click()
    expect(page.locator(".total")).to_contain_text("Weakest: class")
    rows = page.locator(".classes .bar > :last-child").all_inner_texts()
    counts, falls = Counter(y.tolist()), Counter(y[fallen].tolist())
    assert [int(row.split(" of ")[1].split()[0]) for row in rows] == [counts[one] for one in range(10)]
    ours = [int(row.split(" of ")[0]) for row in rows]
    assert sum(abs(here - falls[one]) for one, here in enumerate(ours)) <= 3
    shares = [fall / counts[one] for one, fall in enumerate(ours)]
    weakest = re.match(r"Weakest: class (\d(?: and \d)*), where", page.locator(".total").inner_text())
    expected = [str(one) for one, share in enumerate(shares) if share == max(shares)]
    assert weakest[1].split(" and ") == expected == page.locator(".weakest > :first-child").all_inner_texts()
    assert f"Of 360 images {int(right.sum())} are recognised" in page.locator(".total").inner_text()


def test_all_images_of_a_class_are_attacked_again_when_the_radius_is_dragged(page):
    page.locator("[name=label]").select_option("8")
    page.locator(".one-class").click()
    total = page.locator(".total")
    expect(total).to_contain_text(re.compile(r"^\d+ of 35 images of class 8 fall"))
    before = int(total.inner_text().split()[0])
    page.locator("[name=radius]").fill("0.4")
    expect(total).to_contain_text(re.compile(rf"^(?!{before} )\d+ of 35 images of class 8 fall"))
    assert int(total.inner_text().split()[0]) > before
    page.locator("[name=radius]").fill("0")
    expect(total).to_contain_text("At radius 0 nothing changes.")
    assert page.locator(".classes .idle").count() == 9


def test_the_page_opens_on_an_image_that_the_attack_breaks_and_follows_the_controls(page):
    said = page.locator(".said")
    expect(said).to_contain_text("The attack succeeds: PGD-AT sees")
    page.locator("[name=radius]").fill("0")
    expect(said).to_contain_text("At radius 0 nothing changes: PGD-AT sees")
    page.locator("[name=radius]").fill("0.01")
    expect(said).to_contain_text("The attack fails")
    assert not page.locator("[name=target]").is_visible()
    page.locator("[name=attack]").select_option("targeted")
    expect(page.locator("[name=target]")).to_be_visible()
    page.locator("[name=attack]").select_option("temperature")
    expect(page.locator("[name=inverse]")).to_be_visible()
    page.locator("[name=steps]").fill("3")
    expect(said).to_contain_text("after 3 steps")
    assert len(page.locator(".steps .label").get_attribute("points").split()) == 4
    for wrong, words in (("", "20 steps"), ("-2", "one step"), ("1e9", "200 steps")):
        page.locator("[name=steps]").fill(wrong)
        expect(said).to_contain_text(f"after {words}")
        page.locator("[name=steps]").blur()
        assert page.locator("[name=steps]").input_value() in words.replace("one", "1")
    for wrong in ("", "0", "99", "1.5"):
        page.locator("[name=image]").fill(wrong)
        page.locator("[name=radius]").fill("0.02")
        expect(page.locator("[name=shown]")).to_have_text("0.02")
        page.locator("[name=label]").select_option("4")
        assert page.locator("[name=image]").input_value() in ("1", "2", "36")
        page.locator("[name=label]").select_option("9")
        page.locator("[name=radius]").fill("0.03")


def test_a_targeted_attack_succeeds_where_it_reaches_its_target_which_is_never_the_class_itself(page):
    page.locator("[name=attack]").select_option("targeted")
    page.locator("[name=target]").select_option("3")
    page.locator("[name=radius]").fill("0.5")
    said, label = page.locator(".said"), page.locator("[name=label]")
    expect(said).to_contain_text(re.compile(r"^The attack (succeeds: .* and 3|fails: .* and [^3]).* towards 3\."))
    page.locator(".all-classes").click()
    expect(page.locator(".total")).to_contain_text("become 3.")
    assert page.locator(".classes .idle > :first-child").all_inner_texts() == ["3"]
    label.select_option("3")
    assert page.locator("[name=target]").input_value() == "0"
    assert page.locator("[name=target] option:disabled").all_inner_texts() == ["3"]
    label.select_option("0")
    assert page.locator("[name=target]").input_value() == "1"


def test_what_a_reader_counts_is_not_replaced_when_the_bars_come_into_sight(visit):
    with visit() as page:
        page.set_viewport_size({"width": 1280, "height": 330})
        page.locator(".one-class").click()
        expect(page.locator(".total")).to_contain_text("images of class 9 fall")
        page.locator(".classes").scroll_into_view_if_needed()
        page.wait_for_timeout(300)
        expect(page.locator(".total")).to_contain_text("images of class 9 fall")


def test_a_digit_is_drawn_by_keyboard_and_by_pointer(page):
    page.locator(".draw").click()
    canvas = page.locator(".clean")
    expect(canvas).to_be_focused()
    expect(page.locator(".hint")).to_be_visible()
    expect(page.locator("[name=image]")).to_be_hidden()
    expect(page.locator(".said")).to_contain_text("Draw a digit on the left image")
    assert canvas.evaluate(INKED) == 0
    for key in ("ArrowDown", "ArrowRight", " ", "ArrowDown", " "):
        canvas.press(key)
    expect(canvas).to_have_attribute("aria-label", re.compile("row 3, column 2: arrow keys"))
    expect(canvas).to_have_attribute("role", "application")
    page.wait_for_timeout(200)
    assert canvas.evaluate(INKED) == 8
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.8, box["y"] + box["height"] * 0.2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.8, box["y"] + box["height"] * 0.9, steps=20)
    page.mouse.up()
    page.wait_for_timeout(200)
    assert canvas.evaluate(INKED) > 20
    expect(page.locator(".said")).to_contain_text("You drew")
    page.locator(".clear").click()
    expect(page.locator(".said")).to_contain_text("Draw a digit on the left image")
    page.locator(".draw").click()
    expect(page.locator(".said")).to_contain_text("The label is")


@pytest.mark.parametrize("how", [("light", 1280), ("dark", 375)])
def test_the_form_is_accessible_and_fits_a_phone(visit, how):
    with visit(*how) as page:
        expect(page.locator(".said")).to_contain_text("PGD-AT sees")
        assert browser.violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= how[1]


def test_without_networks_there_is_a_sentence_and_other_networks_are_refused(scenes, monkeypatch):
    monkeypatch.setenv(READ_ONLY, "1")
    assert runs.layers([registry.training("quick", "pgd-at", 77)]) == {}
    assert "not trained yet" in attack_form.attack_form({}, scenes, "0.2")
    with pytest.raises(UserError, match="small-cnn"):
        runs.layers([registry.training("quick", "pgd-at", 0, model="lenet")])
