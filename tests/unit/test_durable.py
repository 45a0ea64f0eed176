"""What has a name is whole; what could not be written leaves the old content."""

import os
from pathlib import Path

import pytest

from gtpo_lit import durable
from gtpo_lit.durable import move_into_place, remove, sync


def make_folder(path: Path, content: str) -> Path:
    (path / "deep").mkdir(parents=True)
    (path / "deep" / "part").write_text(content)
    return path


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_a_file_replaces_a_file(tmp_path):
    (tmp_path / "final").write_text("old")
    (tmp_path / "partial").write_text("new")
    move_into_place(tmp_path / "partial", tmp_path / "final")
    assert names(tmp_path) == ["final"]
    assert (tmp_path / "final").read_text() == "new"


@pytest.mark.parametrize("old", ["nothing", "file", "folder"])
def test_a_folder_replaces_whatever_is_there(tmp_path, old):
    final = tmp_path / "final"
    if old == "file":
        final.write_text("old")
    elif old == "folder":
        make_folder(final, "old")
        (final / "more").write_text("old")
    move_into_place(make_folder(tmp_path / "partial", "new"), final)
    assert names(tmp_path) == ["final"]
    assert names(final) == ["deep"]
    assert (final / "deep" / "part").read_text() == "new"


def test_a_file_replaces_a_folder(tmp_path):
    make_folder(tmp_path / "final", "old")
    (tmp_path / "partial").write_text("new")
    move_into_place(tmp_path / "partial", tmp_path / "final")
    assert names(tmp_path) == ["final"]
    assert (tmp_path / "final").read_text() == "new"


def test_what_an_earlier_kill_left_between_the_two_names_is_cleared_away(tmp_path):
    make_folder(tmp_path / "final.old.partial", "older")
    make_folder(tmp_path / "final", "old")
    move_into_place(make_folder(tmp_path / "partial", "new"), tmp_path / "final")
    assert names(tmp_path) == ["final"]
    assert (tmp_path / "final" / "deep" / "part").read_text() == "new"


@pytest.mark.parametrize("folder", [False, True])
def test_content_that_does_not_reach_the_disk_leaves_the_old_one(tmp_path, monkeypatch, folder):
    partial, final = tmp_path / "partial", tmp_path / "final"
    if folder:
        make_folder(partial, "new"), make_folder(final, "old")
        watched = partial / "deep" / "part"
    else:
        partial.write_text("new"), final.write_text("old")
        watched = partial

    def full(path):
        if path == watched:
            raise OSError(28, "No space left on device")
        sync(path)

    monkeypatch.setattr(durable, "sync", full)
    with pytest.raises(OSError, match="No space left"):
        move_into_place(partial, final)
    assert names(tmp_path) == ["final", "partial"]
    assert (final / "deep" / "part" if folder else final).read_text() == "old"


def test_contents_reach_the_disk_before_the_name_and_the_name_before_the_return(
    tmp_path, monkeypatch
):
    order = []
    monkeypatch.setattr(durable, "sync", lambda path: order.append(Path(path).name))
    replace = os.replace

    def rename(source, target):
        order.append(f"{Path(source).name} -> {Path(target).name}")
        replace(source, target)

    monkeypatch.setattr(os, "replace", rename)
    top = tmp_path / "top"
    move_into_place(make_folder(top / "partial", "new"), top / "final")
    assert order == ["deep", "part", "partial", "partial -> final", "top"]


def test_what_is_not_there_cannot_reach_the_disk(tmp_path):
    with pytest.raises(FileNotFoundError):
        sync(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError):
        move_into_place(tmp_path / "nothing", tmp_path / "final")
    assert names(tmp_path) == []


def test_sync_keeps_no_file_open(tmp_path, monkeypatch):
    def fail(handle):
        raise OSError(5, "Input/output error")

    (tmp_path / "file").write_text("x")
    before = len(os.listdir("/proc/self/fd"))
    sync(tmp_path / "file"), sync(tmp_path)
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output"):
        sync(tmp_path / "file")
    assert len(os.listdir("/proc/self/fd")) == before


def test_remove_takes_files_folders_links_and_nothing(tmp_path):
    make_folder(tmp_path / "kept", "x")
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    (tmp_path / "broken").symlink_to(tmp_path / "nowhere")
    (tmp_path / "file").write_text("x")
    make_folder(tmp_path / "folder", "x")
    for name in ("link", "broken", "file", "folder", "nothing"):
        remove(tmp_path / name)
    assert names(tmp_path) == ["kept"]
    assert (tmp_path / "kept" / "deep" / "part").read_text() == "x"
