"""Studies in a file: gone on with, shared, refused where they are of another question, read by Optuna's own tools."""

import json
import multiprocessing
import time
from pathlib import Path

import numpy as np
import pytest
from fake_kernel import fake_job, fake_space
from optuna.trial import TrialState

from dse.errors import UserError
from dse.search import SAMPLERS, run_search

BOTH = ("latency_s", "smem_bytes")
STORED = [name for name in SAMPLERS if name not in ("gp", "gradient", "cmaes")]


def search(path: Path, trials: int = 32, sampler: str = "tpe", **options):
    job = options.pop("job", fake_job(objectives=BOTH))
    return run_search(job, trials, sampler, options.pop("seed", 3), batch=8, storage=path, **options)


@pytest.mark.parametrize("sampler", STORED)
def test_the_same_command_goes_on_and_counts_on(sampler, tmp_path):
    path = tmp_path / "study.journal"
    first = search(path, 16, sampler)
    again = search(path, 40, sampler)
    assert len(first.trials) == 16
    assert len(again.trials) == 40
    assert again.trials["index"].tolist()[:16] == first.trials["index"].tolist()
    columns = ["index", "latency_s", "smem_bytes", "reason"]
    assert again.trials[columns].head(16).equals(first.trials[columns])
    assert again.trials["index"].tolist()[16:32] != first.trials["index"].tolist()  # not the same draws again
    assert len(again.study.trials) == 40


@pytest.mark.parametrize("sampler", ["tpe", "local"])
def test_known_schedules_are_tried_by_a_search_that_goes_on_too(sampler, tmp_path):
    path = tmp_path / "study.journal"
    search(path, 8, sampler, first=[5])
    found = search(path, 24, sampler, first=[5, 77, 78])
    assert found.trials["index"].tolist()[8:10] == [77, 78]


def test_a_known_candidate_that_was_never_told_is_tried_again():
    from dse.search.candidates import search_space
    from dse.search.optuna import enqueue, new_study
    from dse.search.parameters import distributions

    space = search_space(fake_space())
    kinds, study = distributions(space), new_study(1, "tpe", 0)
    first = {name: kind.high for name, kind in kinds.items()}
    for asked in range(1, 4):
        enqueue(study, space, [first])
        enqueue(study, space, [first])  # waits already
        trial = study.ask(kinds)
        assert trial.params == first
        study.tell(trial, *([1.0] if asked == 3 else []), state=TrialState.COMPLETE if asked == 3 else TrialState.FAIL)
    enqueue(study, space, [first])
    assert len(study.trials) == 3


def test_a_finished_search_is_told_again_without_a_trial(tmp_path):
    first, again = (search(tmp_path / "study.journal") for _ in range(2))
    assert again.best.drop(columns="trial").equals(first.best.drop(columns="trial"))
    assert len(again.study.trials) == 32


@pytest.mark.parametrize("sampler", ["tpe", "local"])
def test_the_first_process_draws_as_without_a_file(sampler, tmp_path):
    job = fake_job(objectives=BOTH)
    assert search(tmp_path / "s", 32, sampler).trials.equals(run_search(job, 32, sampler, 3, batch=8).trials)


def test_an_interrupted_search_keeps_what_was_told(tmp_path):
    def interrupt(snapshot):
        if snapshot.done >= 16 and not snapshot.finished:
            raise KeyboardInterrupt

    path = tmp_path / "study.journal"
    first = search(path, progress=interrupt)
    assert first.incomplete
    assert len(first.trials) == 16
    assert search(path).trials["index"].tolist()[:16] == first.trials["index"].tolist()


def _worker(path: str, sampler: str) -> None:
    search(Path(path), 60, sampler, seed=5)


@pytest.mark.parametrize("sampler", ["nsga2", "random"])
def test_two_processes_share_a_study(sampler, tmp_path):
    path = tmp_path / "study.journal"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_worker, args=(str(path), sampler)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
        assert worker.exitcode == 0
    found = search(path, 60, sampler, seed=5)
    assert 60 <= len(found.trials) <= 60 + 8  # the two may end their last batch at the same time
    assert len({tuple(sorted(trial.params.items())) for trial in found.study.trials}) > 45


def test_trials_of_other_processes_are_told_from_those_of_this_one(tmp_path):
    def beside(snapshot):
        if snapshot.done == 8:
            search(tmp_path / "s", 16, "random")

    found = search(tmp_path / "s", 24, "random", progress=beside)
    assert (found.in_file, found.others, len(found.trials)) == (0, 8, 24)


def test_the_gpus_numbers_come_back_as_they_were(tmp_path):
    gpu = {"speed": (0.5, 2.0, "log"), "smem_max": [40, 150]}
    first, again = (search(tmp_path / "s", 24, "local", gpu=gpu) for _ in range(2))
    assert again.trials.equals(first.trials)


@pytest.mark.parametrize(
    ("changed", "texts"),
    [
        ({"job": fake_job(objectives=("latency_s", "ddr_bytes"))}, ["objectives is latency_s, smem_bytes there"]),
        ({"job": fake_job(fake_space(5), objectives=BOTH)}, ["space is fake/all, 3185 points", "1225 points"]),
        ({"job": fake_job(work=6.0, objectives=BOTH)}, ["problem is work=5 there, work=6 here"]),
        ({"job": fake_job(speed=2.0, objectives=BOTH)}, ["gpu numbers is"]),
        ({"gpu": {"speed": (1.0, 2.0)}}, ["gpu axes is none there, speed=1, 2, linear here"]),
        ({"limits": {"smem_bytes": 50}}, ["limits is none there, smem_bytes=50 here"]),
    ],
)
def test_a_file_of_another_question_is_refused(changed, texts, tmp_path):
    path = tmp_path / "study.journal"
    search(path, 8, study_name="mine")
    with pytest.raises(UserError) as refused:
        search(path, 8, study_name="mine", **changed)
    message = str(refused.value)
    assert f"--storage {path}: study 'mine' is of another question: " in message
    assert "give another --storage or --study-name (there: mine)" in message
    for text in texts:
        assert text in message
    assert len(search(path, 8, study_name="mine").trials) == 8  # nothing was lost


def test_a_study_of_another_name_has_room_in_the_same_file(tmp_path):
    search(tmp_path / "s", 8, study_name="one")
    assert len(search(tmp_path / "s", 16, "random", study_name="two", limits={"smem_bytes": 50}).trials) == 16
    assert len(search(tmp_path / "s", 8, study_name="one").trials) == 8


def test_a_line_cut_by_a_kill_is_taken_off(tmp_path):
    path = tmp_path / "study.journal"
    first = search(path, 16, "random")
    with path.open("ab") as file:
        file.write(b'{"op_code": 4, "worker_id": "x", "stu')
    assert len(search(path, 24, "random").trials) == 24
    assert len(search(path, 24, "random").trials) == 24
    for line in path.read_text().splitlines():
        json.loads(line)
    assert first.seed == 3


@pytest.mark.parametrize(
    ("content", "line"), [(b"not a journal\n", 1), (b'{"op_code": 0}\n', "?"), (b"[1, 2]\n", 1), (b"\x00\x01\n", 1)]
)
def test_a_damaged_file_is_one_message(content, line, tmp_path):
    path = tmp_path / "study.journal"
    path.write_bytes(content)
    with pytest.raises(UserError, match="is damaged, or no Optuna journal") as refused:
        search(path)
    assert f"(line {line}: " in str(refused.value)
    assert path.read_bytes() == content


def test_damage_in_the_middle_names_the_line(tmp_path):
    path = tmp_path / "study.journal"
    search(path, 8, "random")
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:4], "{broken\n", *lines[4:]]))
    with pytest.raises(UserError, match=r"line 5: \w+\): move it away, or give another file"):
        search(path, 16, "random")


def test_places_that_cannot_be_a_file(tmp_path):
    with pytest.raises(UserError, match="is a folder: give a file"):
        search(tmp_path)
    with pytest.raises(UserError, match="No such file or directory; choose another file"):
        search(tmp_path / "not" / "there" / "study.journal")
    (tmp_path / "text").write_text("one long line of something else")
    with pytest.raises(UserError, match="is no Optuna journal: it is not lines of JSON"):
        search(tmp_path / "text")


@pytest.mark.parametrize(("trials", "directions"), [(2, ["minimize"]), (0, ["maximize"]), (0, ["minimize"] * 2)])
def test_a_study_that_others_made_is_refused(trials, directions, tmp_path):
    import optuna

    path = tmp_path / "study.journal"
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(path)))
    study = optuna.create_study(storage=storage, study_name="theirs", directions=directions)
    if trials:
        study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=trials)
    with pytest.raises(UserError, match="study 'theirs' was not made by dse search; give another --study-name"):
        search(path, job=fake_job(objectives=("latency_s",)), study_name="theirs")


@pytest.mark.parametrize("sampler", ["tpe", "local"])
def test_optunas_own_tools_read_the_file(sampler, tmp_path):
    import optuna
    from optuna.visualization import matplotlib as plots

    path = tmp_path / "study.journal"
    result = search(path, 48, sampler, study_name="mine")
    backend = optuna.storages.journal.JournalFileBackend(str(path))
    study = optuna.load_study(study_name="mine", storage=optuna.storages.JournalStorage(backend))
    front = {tuple(trial.values) for trial in study.best_trials}
    assert front == {tuple(row) for row in result.front[list(BOTH)].to_numpy(float)}
    axes = plots.plot_pareto_front(study, target_names=list(BOTH))
    assert len(axes.get_figure().axes) >= 1
    history = plots.plot_optimization_history(study, target=lambda trial: trial.values[0], target_name="latency_s")
    drawn = np.concatenate([np.asarray(part.get_offsets())[:, 1] for part in history.collections])
    assert sorted(drawn) == pytest.approx(sorted(result.trials["latency_s"]))
    assert plots.plot_slice(study, params=["tile"], target=lambda trial: trial.values[0]) is not None


def _endless(path: str) -> None:
    search(Path(path), 100_000, "tpe", seed=5)


def test_what_was_told_before_a_kill_is_kept(tmp_path):
    path = tmp_path / "study.journal"
    process = multiprocessing.get_context("spawn").Process(target=_endless, args=(str(path),))
    process.start()
    deadline = time.monotonic() + 100
    while time.monotonic() < deadline and not (path.exists() and path.read_bytes().count(b'"values"') > 20):
        time.sleep(0.05)
    process.kill()
    process.join(30)
    told = path.read_bytes().count(b'"values":[')
    found = search(path, told + 8, "tpe", seed=5)
    assert told > 20
    assert told + 8 <= len(found.trials) <= told + 16
    assert len(search(path, told + 8, "tpe", seed=5).trials) == len(found.trials)
