"""Every registered kernel keeps the engine's terms: its problem, its choices, its spaces and its schedule's fields."""

import json
import pickle

import pytest

from dse import list_spaces, load_gpu
from dse.content.space import schedule_fields, space_families
from dse.kernels.problem import Problem, default_of, shape_form
from dse.kernels.registry import FILES, choices_by_option, get_kernel, kernel_names, without_interval
from dse.provenance import describe_problem
from dse.question import ask
from dse.roofline import roofline
from dse.schedule_words import words_of
from dse.space import Space

KERNELS = tuple(FILES)


def example(name: str) -> str:
    return get_kernel(name).problem.EXAMPLE


@pytest.mark.parametrize("name", KERNELS)
class TestKernel:
    def test_it_is_found_by_its_name_and_travels_to_workers(self, name):
        kernel = get_kernel(name)
        assert kernel.name == kernel.problem.kernel == name
        assert pickle.loads(pickle.dumps(kernel)) == kernel
        assert hash(kernel) == hash(get_kernel(name))

    def test_its_problem_is_read_from_its_shape_and_its_attributes(self, name):
        problem = get_kernel(name).problem.from_shape(example(name))
        assert isinstance(problem, Problem)
        assert problem.shape in problem.title
        assert type(problem).from_shape(problem.shape) == problem
        stored = json.loads(json.dumps(describe_problem(problem)))
        assert get_kernel(name).problem_of(stored) == problem
        assert pickle.loads(pickle.dumps(problem)) == problem
        assert shape_form(type(problem))

    def test_its_choices_are_attributes_whose_defaults_are_allowed(self, name):
        problem = get_kernel(name).problem
        for choice in problem.CHOICES:
            default = default_of(problem, choice)
            assert choice.read(default) == default
            assert choice.text in choice.help(default)

    def test_its_fields_are_declared_and_its_spaces_load(self, name):
        kernel = get_kernel(name)
        assert set(schedule_fields(name)) == set(kernel.schedule_fields)
        assert set(kernel.compiled_fields) <= set(kernel.schedule_fields)
        assert {entry.family for entry in list_spaces() if entry.kernel == name} == set(space_families(name))
        assert space_families(name)

    def test_a_schedule_of_its_space_is_written_and_read_back(self, name):
        words, space = words_of(name), spaces(name)[0]
        for index in (0, space.size // 2, space.size - 1):
            schedule = {field: int(value) for field, value in space.schedule(index).items()}
            assert words.parse(words.format(schedule), space.family) == schedule

    def test_its_roofs_are_positive(self, name):
        asked = ask(example(name), kernel=name)
        roof = roofline(asked.problem, asked.bound)
        assert roof.compulsory_bytes > 0
        assert roof.flop >= 0
        assert roof.ddr_s > 0


def spaces(name: str) -> list[Space]:
    from dse import load_space

    return [load_space(name, family) for family in space_families(name)]


def test_a_choice_of_one_name_takes_the_same_option_everywhere():
    for option, kernels in choices_by_option().items():
        assert len({choice.name for choice in kernels.values()}) == 1, option


def test_the_packaged_kernels_are_all_there_are():
    assert kernel_names() == KERNELS


def test_a_gpu_without_the_type_still_runs_a_kernel_without_tensor_instructions():
    assert "fp32" not in load_gpu("h200_sxm").dtypes()
    assert ask("4096x4096", "fp32", kernel="softmax").family == "simt"


def test_a_kernel_without_intervals_says_what_of_it_was_compared() -> None:
    said = "no interval; held against measurements: "
    assert without_interval("grouped_gemm") == said + "a few published rates (dse validate grouped_gemm)"
    assert without_interval("moe") == said + "library schedules, a preset with its implementation (dse validate moe)"
