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
    network, ball, (options, ours) = network_of(SPECS[name]).cpu(), Linf(RADIUS), ATTACKS[attack]
    starts = STARTS["uniform"](x, ball, torch.Generator().manual_seed(0)).flatten(1).tolist()
    expected = predict(network, ours(network, x, y, ball, torch.Generator().manual_seed(0)))
    given = [name, x.flatten(1).tolist(), starts, {**options, "radius": RADIUS}]
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
    expect(page.locator(".total")).to_contain_text("is the weakest")
    rows = page.locator(".classes .row > :last-child").all_inner_texts()
    counts, falls = Counter(y.tolist()), Counter(y[fallen].tolist())
    assert [int(row.split(" of ")[1].split()[0]) for row in rows] == [counts[one] for one in range(10)]
    ours = [int(row.split(" of ")[0]) for row in rows]
    assert sum(abs(here - falls[one]) for one, here in enumerate(ours)) <= 3
    shares = [fall / counts[one] for one, fall in enumerate(ours)]
    weakest = re.match(r"Class (\d) is", page.locator(".total").inner_text())
    assert shares[int(weakest[1])] == max(shares)
    assert f"Of 360 images {int(right.sum())} are recognised" in page.locator(".total").inner_text()


def test_all_images_of_a_class_are_attacked_again_when_the_radius_is_dragged(page):
    page.locator("[name=label]").select_option("8")
    page.locator(".one-class").click()
    total = page.locator(".total")
    expect(total).to_contain_text("withstand, ")
    before = total.inner_text()
    page.locator("[name=radius]").fill("0")
    expect(total).to_contain_text(re.compile("100 %|9. %"))
    assert total.inner_text() != before
    assert page.locator(".classes .idle").count() == 9


def test_the_page_opens_on_an_image_that_the_attack_breaks_and_follows_the_controls(page):
    said = page.locator(".said")
    expect(said).to_contain_text("The attack succeeds: PGD-AT sees")
    page.locator("[name=radius]").fill("0")
    expect(said).to_contain_text("The attack fails")
    assert not page.locator("[name=target]").is_visible()
    page.locator("[name=attack]").select_option("targeted")
    expect(page.locator("[name=target]")).to_be_visible()
    page.locator("[name=attack]").select_option("temperature")
    expect(page.locator("[name=inverse]")).to_be_visible()
    page.locator("[name=steps]").fill("3")
    expect(said).to_contain_text("after 3 steps")
    assert len(page.locator(".steps .label").get_attribute("points").split()) == 4
    for wrong in ("", "-2", "1e9"):
        page.locator("[name=steps]").fill(wrong)
        expect(said).to_contain_text("after 200 steps" if wrong == "1e9" else "after one step")


def test_a_digit_is_drawn_by_keyboard_and_by_pointer(page):
    page.locator(".draw").click()
    canvas = page.locator(".clean")
    expect(canvas).to_be_focused()
    expect(page.locator(".hint")).to_be_visible()
    assert canvas.evaluate(INKED) == 0
    for key in ("ArrowDown", "ArrowRight", " ", "ArrowDown", " "):
        canvas.press(key)
    expect(canvas).to_have_attribute("aria-label", re.compile("arrow keys"))
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
