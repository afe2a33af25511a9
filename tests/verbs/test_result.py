"""Results that show themselves."""

import json
from dataclasses import replace

import pytest

from builders import small_forecast
from perfcast.cli.output import write_json
from perfcast.core.forecast.device import Forecast
from perfcast.core.own_module import OwnModule
from perfcast.errors import InputError, UnknownNameError
from perfcast.verbs.predict.question import PredictQuestion
from perfcast.verbs.predict.result import PlanResult, StepResult
from perfcast.verbs.result import Comparison, shown
from plan_forecasts import plan_forecast
from rendered import json_of

ASKED = PredictQuestion(model="tiny", device="h100-sxm")


def step(times: float = 1.0) -> StepResult:
    forecast = small_forecast()
    scaled = replace(
        forecast,
        step_seconds=times * forecast.step_seconds,
        step_seconds_low=times * forecast.step_seconds_low,
        step_seconds_high=times * forecast.step_seconds_high,
    )
    return shown(StepResult, scaled, ASKED)


def plan() -> PlanResult:
    return shown(PlanResult, plan_forecast(), ASKED, run=None)


def test_a_result_is_the_forecast_that_it_shows():
    assert isinstance(step(), Forecast)
    assert step().step_seconds == small_forecast().step_seconds


@pytest.mark.parametrize("make", [step, plan], ids=["step", "plan"])
def test_at_a_prompt_it_has_one_to_six_lines(make):
    lines = repr(make()).splitlines()
    assert 1 <= len(lines) <= 6
    assert any("–" in line for line in lines)


@pytest.mark.parametrize("make", [step, plan], ids=["step", "plan"])
def test_a_dictionary_is_what_json_holds(make, capsys):
    result = make()
    write_json(result.whole(), "-")
    written = json.loads(capsys.readouterr().out)
    assert result.to_dict() == written
    assert written["schema_version"] == "1"
    json_of(result.data())


def test_files_are_those_of_the_command_line(tmp_path):
    result = step()
    text = result.to_json(tmp_path / "a.json")
    result.to_html(tmp_path / "a.html")
    result.to_perfetto(tmp_path / "a.trace.json")
    assert (tmp_path / "a.json").read_text(encoding="utf-8") == text
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "perfcast predict tiny --device h100-sxm" in page
    events = json.loads((tmp_path / "a.trace.json").read_text(encoding="utf-8"))
    assert events["traceEvents"]


def test_a_page_of_a_question_with_objects_names_no_command(tmp_path):
    result = shown(StepResult, small_forecast(), PredictQuestion(model=OwnModule(object(), ())))
    result.to_html(tmp_path / "a.html")
    assert "<code>perfcast" not in (tmp_path / "a.html").read_text(encoding="utf-8")


def test_figures_are_drawn_by_name_and_an_unknown_one_lists_close_ones():
    result = step()
    assert set(result.figures) >= {"phases", "kinds", "modules", "roofline", "memory"}
    assert result.plot("roofline").data
    assert result.plot().to_dict() == result.plot("phases").to_dict()
    with pytest.raises(UnknownNameError, match="roofline"):
        result.plot("rofline")


def test_a_table_is_of_operations_and_a_notebook_shows_cards():
    result = step()
    assert len(result.to_dataframe()) == len(result.operations)
    assert 'class="cards"' in result._repr_html_()


def test_two_of_a_kind_are_compared_and_show_themselves_likewise():
    found = step().compare(step(times=2.0))
    assert isinstance(found, Comparison)
    assert "× 2, told apart" in repr(step().compare(step(times=2.0)))
    assert found.to_dict()["figures"][0]["ratio"] == pytest.approx(2.0)
    assert found.to_dataframe()["label"][0] == "Step time"
    assert 'class="perfcast-result"' in found._repr_html_()


def test_answers_of_different_kinds_are_not_compared():
    with pytest.raises(InputError, match="StepResult and PlanResult answer different questions"):
        step().compare(plan())


def test_where_nothing_says_what_happens_when_there_is_no_timeline(tmp_path, monkeypatch):
    monkeypatch.setattr(StepResult, "timeline", lambda _: None)
    with pytest.raises(InputError, match="has no timeline"):
        step().to_perfetto(tmp_path / "a.json")
    assert not (tmp_path / "a.json").exists()


def test_a_picture_needs_no_script_and_is_written_as_svg(tmp_path):
    picture = step().picture("kinds")
    assert repr(picture) == "Picture('kinds')"
    assert "<svg" in picture._repr_html_()
    assert "<script" not in picture._repr_html_()
    picture.to_svg(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text(encoding="utf-8").startswith("<svg")
    with pytest.raises(UnknownNameError, match="kinds"):
        step().picture("kind")


def test_formulas_have_no_timeline_and_say_what_has_one(tmp_path):
    played = plan()
    formulas = shown(
        PlanResult, replace(plan_forecast(), time=replace(played.time, spans=())), ASKED, run=None
    )
    assert played.timeline() is not None
    with pytest.raises(InputError, match="ask without closed_form"):
        formulas.to_perfetto(tmp_path / "a.json")
