"""Pages beside recorded files, from a run and from the command line."""

import json
import re
import runpy
from pathlib import Path

import pytest

from callbacks import CreditViewer
from callbacks.credit_viewer.__main__ import main
from gtpo_lit.credit_page import credit_page
from gtpo_lit.recorded import read_rollouts, write_rollouts

made = runpy.run_path(str(Path(__file__).parents[1] / "recorded" / "made_step.py"))
recorder = runpy.run_path(str(Path(__file__).with_name("test_rollout_recorder.py")))


def test_a_run_leaves_a_page_beside_each_recorded_step(tmp_path):
    trainer = recorder["run"](tmp_path, steps=3, extra=(CreditViewer(every_n_steps=2),))
    folder = Path(trainer.log_dir) / "rollouts"
    names = sorted(entry.name for entry in folder.iterdir())
    assert names == ["step_000002.html", "step_000002.parquet"]
    step = read_rollouts(folder / "step_000002.parquet")
    assert (folder / "step_000002.html").read_text() == credit_page(step)


def test_the_command_line_writes_beside_the_file_or_where_it_is_told(tmp_path, capsys):
    file = tmp_path / "step_000010.parquet"
    write_rollouts(made["make_step"](), file)
    assert main([str(file)]) == 0
    assert main([str(file), "--output", str(tmp_path / "deep" / "page.html")]) == 0
    pages = [tmp_path / "step_000010.html", tmp_path / "deep" / "page.html"]
    assert capsys.readouterr().out.split() == [str(page) for page in pages]
    assert pages[0].read_text() == pages[1].read_text()
    data = re.search(r'id="data">(.*?)</script>', pages[0].read_text())[1]
    assert json.loads(data)["pieces"][1] == ["</script>", " b", "\u202e", "<eos>"]


@pytest.mark.parametrize("content", [None, b"", b"PAR1 half"])
def test_files_that_cannot_be_read_end_with_one_line(tmp_path, capsys, content):
    file = tmp_path / "step_000010.parquet"
    if content is not None:
        file.write_bytes(content)
    assert main([str(file)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"credit_viewer: {file}")
    assert error.count("\n") == 1
    assert not file.with_suffix(".html").exists()


def test_the_page_never_replaces_the_recorded_file(tmp_path, capsys):
    file = tmp_path / "step_000010.parquet"
    write_rollouts(made["make_step"](), file)
    assert main([str(file), "--output", str(file)]) == 2
    assert "--output" in capsys.readouterr().err
    assert read_rollouts(file).step == 10
