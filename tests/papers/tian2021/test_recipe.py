"""How the paper trains and attacks."""

from classwise.papers import registry


def test_each_section_attacks_with_the_steps_of_the_paper():
    asked = {
        name: registry.request(f"tian2021/{name}", "paper")
        for name in ("4-1-class-bias", "4-3-attacks-and-defences", "5-temperature-pgd")
    }
    steps = {name: [one.attack for one in request.evaluations] for name, request in asked.items()}
    assert steps["4-1-class-bias"][-1] == "pgd-20@tian2021-a1"
    assert steps["4-3-attacks-and-defences"][-1] == steps["5-temperature-pgd"][-1] == "pgd-20@tian2021"
    rows = {one.attack: one for one in asked["4-3-attacks-and-defences"].extra_evaluations["mart"]}
    assert rows["cw@tian2021"].per_class == rows["n-attack@tian2021"].per_class == 200
    assert rows["pgd-20@tian2021"].substitute == "standard"
    assert dict(rows["n-attack@tian2021"].options) == {}
    short = {one.attack: one for one in registry.request("tian2021/4-3-attacks-and-defences", "short").extra_evaluations["mart"]}
    assert short["n-attack"].options["population"] == 100
    assert dict(short["cw"].options) == {"goal": "inside"}
