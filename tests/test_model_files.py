"""Models by their published dimensions: as many parameters as published, and what is said of a file that is wrong."""

import pytest
from cli_run import answer, json_answer
from own_model import OWN_MODEL

from dse.content.model import list_models, load_model
from dse.errors import UserError

PARAMETERS = {  # billions, all of the model, as the papers and model cards give them
    "llama3_8b": 8.03,
    "llama3_70b": 70.6,
    "llama3_405b": 405.9,
    "qwen2_5_7b": 7.61,
    "qwen2_5_14b": 14.7,
    "qwen2_5_32b": 32.8,
    "qwen2_5_72b": 72.7,
    "qwen3_8b": 8.19,
    "qwen3_32b": 32.76,
    "qwen3_30b_a3b": 30.53,
    "qwen3_235b_a22b": 235.09,
    "mixtral_8x7b": 46.7,
    "mixtral_8x22b": 140.6,
    "deepseek_v3": 671.0,
    "gpt_oss_20b": 20.91,
    "gpt_oss_120b": 116.83,
}


def test_every_packaged_model_is_known() -> None:
    assert set(list_models()) == set(PARAMETERS)


@pytest.mark.parametrize("name", PARAMETERS)
def test_matrices_hold_the_published_number_of_parameters(name: str) -> None:
    """Norms and biases are some millionths; every size of a file goes into the sum."""
    assert load_model(name).matrix_parameters / 1e9 == pytest.approx(PARAMETERS[name], rel=5e-3)


@pytest.mark.parametrize("name", PARAMETERS)
def test_every_number_has_its_source(name: str) -> None:
    model = load_model(name)
    about = model.to_dict()
    assert set(about["sources"]) == {part for part in ("model", "attention", "mla", "ffn", "moe") if part in about}
    assert all("arXiv" in text or "config.json" in text for text in model.sources.values())


def test_a_model_of_ones_own_by_path(tmp_path) -> None:
    file = tmp_path / "small.toml"
    file.write_text(OWN_MODEL)
    model = load_model(file)
    assert (model.name, model.layers, model.attention.heads, model.ffn.layers) == ("small", 2, 8, 2)
    assert model.moe is None


def test_an_unknown_name_has_a_suggestion() -> None:
    with pytest.raises(UserError, match=r"unknown model 'llama3_7b'; known: deepseek_v3, .*did you mean 'llama3_70b'"):
        load_model("llama3_7b")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("heads = 8\n", "heads = 7\n", "attention.kv_heads: 2 does not divide the 7 heads"),
        ("layers = 2", "layers = 0", "model.layers: 0 is not allowed: a whole number from 1 to 16777215"),
        ("hidden = 1024", "hiden = 1024", "model.hiden: unknown; known: .*did you mean 'hidden'"),
        ("hidden = 1024\n", "", "model.hidden: is missing: a whole number"),
        ("inter = 2048", "inter = 2048\nlayers = 1", "ffn.layers: layers of .ffn. and .moe. sum to 1, the model has 2"),
        ("head_dim = 128", "head_dim = 128\nwindow = 64", "attention.window: window and windowed_layers belong"),
        ('[ffn]\nsource = "own"', "[ffn]", "ffn.source: is missing: one of own, or text"),
        ("[attention]", "[mla]", r"mla.kv_heads: unknown; known: source, heads, q_rank"),
        ('title = "Small"', "", "title: is missing: text"),
        ('own = "made up"', "", "sources: must map short names to text"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path, old: str, new: str, said: str) -> None:
    assert OWN_MODEL.count(old) == 1
    file = tmp_path / "wrong.toml"
    file.write_text(OWN_MODEL.replace(old, new))
    with pytest.raises(UserError, match=said) as error:
        load_model(file)
    assert str(file) in str(error.value)


def test_all_that_is_wrong_is_said_at_once(tmp_path) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(OWN_MODEL.replace("heads = 8", "heads = 7").replace("inter = 2048", "inter = -1"))
    with pytest.raises(UserError, match=r"2 problems\n.*\n"):
        load_model(file)


@pytest.mark.parametrize("wrong", ["heads = -8", "kv_heads = 0", "layers = true"])
def test_numbers_that_are_wrong_themselves_are_not_compared(tmp_path, wrong: str) -> None:
    file, name = tmp_path / "wrong.toml", wrong.split()[0]
    lines = [wrong if line.split(" =")[0] == name else line for line in OWN_MODEL.splitlines()]
    file.write_text("\n".join(lines))
    with pytest.raises(UserError, match="1 problem\n"):
        load_model(file)


def test_the_command_lists_models_and_shows_one(capsys) -> None:
    assert {row["name"] for row in json_answer(capsys, "models")} == set(PARAMETERS)
    code, out, _ = answer(capsys, "models", "deepseek_v3")
    assert code == 0
    assert "671.0 billion" in out
    assert "mla.kv_rank" in out
    code, _, err = answer(capsys, "models", "nothing")
    assert (code, err.count("\n")) == (2, 1)
