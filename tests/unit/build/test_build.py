#!/usr/bin/python3 -I
# SPDX-License-Identifier: Apache-2.0
"""The template builder without its packages: recipes, cleaning, hashing, publishing."""
import argparse
import importlib.machinery
import importlib.util
import json
import os
import shutil
import sqlite3
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../src/build/cay-build")
loader = importlib.machinery.SourceFileLoader("cay_build", os.path.realpath(SOURCE))
build = importlib.util.module_from_spec(importlib.util.spec_from_loader("cay_build", loader))
loader.exec_module(build)
build.say = lambda text: None


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="cay-build-test-")
        self.addCleanup(shutil.rmtree, self.dir)

    def recipe(self, text):
        path = os.path.join(self.dir, "x.recipe")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return build.Recipe(path)

    def tree(self, name="rootfs"):
        root = os.path.join(self.dir, name)
        os.makedirs(f"{root}/etc")
        os.makedirs(f"{root}/dev")
        with open(f"{root}/etc/a file\n", "w", encoding="utf-8") as f:
            f.write("content")
        os.symlink("a file\n", f"{root}/etc/link")
        return root

    def manifest(self, root, recipe=None, name="x"):
        path = os.path.join(self.dir, "manifest")
        sums = build.write_manifest(root, recipe or self.recipe(""), name, path)
        with open(path, encoding="ascii") as f:
            return sums, f.read()


class Recipes(Case):
    def test_everything_is_read(self):
        r = self.recipe("# c\nname = x\npackages = bash git\npackages = g++\nenv.A = b = c\n"
                        "user = root\n[setup]\necho [setup]\nkey = not a key\n")
        self.assertEqual(r.packages, ["bash", "git", "g++"])
        self.assertEqual(r.env, {"A": "b = c"})
        self.assertEqual(r.values["user"], "root")
        self.assertEqual(r.setup, "echo [setup]\nkey = not a key\n")

    def test_mistakes_are_named_with_their_line(self):
        for text, message in (
                ("\nfoo = 1\n", "2: unknown key 'foo'"),
                ("no equals\n", "1: expected 'key = value'"),
                ("packages = ok --option\n", "not a package name: '--option'"),
                ("packages = ../x\n", "not a package name"),
                ("env.A-B = 1\n", "not a variable name"),
                ("user = nobody\n", "user must be"),
                ("workdir = relative\n", "workdir must be an absolute path"),
                ("workdir = /a/../b\n", "workdir must be an absolute path"),
                ("suite = a b\n", "not a suite name"),
                ("preview_port = 65536\n", "preview_port must be a port"),
                ("preview_port = 22\n", "preview_port must not be 22"),
                ("preview_port = 5900\n", "preview_port must not be 22"),
                ("preview_port = 5999\n", "preview_port must not be 22"),
                ("init =\n", "init: at most 16"),
                ("init = true\n" * 17, "17: init: at most 16"),
                ("init = " + "x" * (32 * 1024 + 1) + "\n", "init: at most 16"),
                ("variant = x\n", "variant must be one of")):
            with self.assertRaises(build.Failure) as caught:
                self.recipe(text)
            self.assertIn(message, str(caught.exception))

    def test_recipe_based_on_another(self):
        r = self.recipe("from = base\nfile = code/x /usr/lib/x 755\nenv.A = new\nuser = user\n")
        r.inherit({"workdir": "/w", "user": "sandbox", "shell": "/bin/sh", "env": {"A": "old", "B": "b"}})
        self.assertEqual(r.files, [(os.path.join(self.dir, "code/x"), "/usr/lib/x", 0o755)])
        self.assertEqual((r.values["workdir"], r.values["user"], r.values["shell"]), ("/w", "user", "/bin/sh"))
        self.assertEqual(r.env, {"A": "new", "B": "b"})
        below = {"workdir": "/w", "user": "sandbox", "shell": "/bin/sh", "env": {}, "initializers": ["one"] * 14}
        r = self.recipe("from = base\ninit = two = 2\ninit = three\n")
        r.inherit(below)
        self.assertEqual(r.initializers, ["one"] * 14 + ["two = 2", "three"])
        with self.assertRaises(build.Failure):
            self.recipe("from = base\n" + "init = x\n" * 3).inherit(below)
        for text, message in (("from = base\nsuite = bookworm\n", "suite and variant"),
                              ("from = ../x\n", "not a template name"),
                              ("file = /etc/passwd /x 644\n", "below the recipes"),
                              ("file = ../x /x 644\n", "below the recipes"),
                              ("file = x y 644\n", "absolute path"), ("file = x /../y 644\n", "absolute path"),
                              ("file = x /y 4755\n", "three octal digits"), ("file = x /y\n", "SOURCE")):
            with self.assertRaises(build.Failure) as caught:
                self.recipe(text)
            self.assertIn(message, str(caught.exception))

    def test_a_missing_base_template_is_named(self):
        os.makedirs(f"{self.dir}/refs")
        with self.assertRaises(build.Failure) as caught:
            build.run_on_top(self.recipe("from = base\n"), "x", "/nonexistent", self.dir)
        self.assertIn("build base first", str(caught.exception))

    def test_shipped_recipes_are_good(self):
        directory = os.path.join(os.path.dirname(os.path.realpath(SOURCE)), "../../templates")
        names = [name for name in os.listdir(directory) if name.endswith(".recipe")]
        self.assertIn("base.recipe", names)
        for name in names:
            recipe = build.Recipe(os.path.join(directory, name))
            self.assertEqual(recipe.values["name"] + ".recipe", name)
            for source, _, _ in recipe.files:
                self.assertTrue(os.path.isfile(source), source)


class Removal(Case):
    """Templates and daemons as far as a removal checks them."""

    def template(self, name, digit, **meta):
        digest = digit * 64
        os.makedirs(f"{self.dir}/{digest}/tree/rootfs")
        os.makedirs(f"{self.dir}/refs", exist_ok=True)
        with open(f"{self.dir}/{digest}/meta.json", "w", encoding="utf-8") as f:
            json.dump({"name": name, "hash": digest, **meta}, f)
        with open(f"{self.dir}/refs/{name}", "w", encoding="ascii") as f:
            f.write(f"1 {digest}\n")
        return digest

    def daemon(self, number, rows=(), snapshots=()):
        state = f"{self.dir}/state{number}"
        os.makedirs(state)
        os.makedirs(f"{self.dir}/run", exist_ok=True)
        with open(f"{self.dir}/run/{number}", "w", encoding="ascii") as f:
            f.write(state)
        with sqlite3.connect(f"{state}/cay.db") as db:
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("CREATE TABLE sandboxes(id, state, template_hash)")
            db.execute("CREATE TABLE snapshots(id, template_hash)")
            db.executemany("INSERT INTO sandboxes VALUES(?,?,?)", rows)
            db.executemany("INSERT INTO snapshots VALUES(?,?)", snapshots)
        db.close()

    def remove(self, name):
        build.remove(argparse.Namespace(name=name, templates=self.dir, run=f"{self.dir}/run", patience=0))

    def setUp(self):
        super().setUp()
        lock, build.lock = build.lock, lambda templates: None  # it is held until the process ends
        self.addCleanup(setattr, build, "lock", lock)

    def refused(self, name, message):
        with self.assertRaises(build.Failure) as caught:
            self.remove(name)
        self.assertIn(message, str(caught.exception))

    def test_removal_deletes_only_its_own_versions(self):
        old, new, other = self.template("x", "a"), self.template("x", "b"), self.template("y", "c")
        self.daemon(1, [("s", "destroyed", old), ("t", "running", other)])
        self.remove("x")
        self.assertEqual(sorted(os.listdir(f"{self.dir}/refs")), ["y"])
        self.assertFalse(os.path.exists(f"{self.dir}/{old}") or os.path.exists(f"{self.dir}/{new}"))
        self.assertTrue(os.path.isdir(f"{self.dir}/{other}"))
        self.remove("x")  # again: what a kill left without a ref would go now

    def test_users_of_any_daemon_and_version(self):
        old, new = self.template("x", "a"), self.template("x", "b")
        self.daemon(1, [("s1", "paused", old)])
        self.daemon(2, snapshots=[("p2", new)])
        self.refused("x", f"in use: sandbox s1 ({self.dir}/state1), snapshot p2 ({self.dir}/state2)")
        self.assertTrue(os.path.exists(f"{self.dir}/refs/x") and os.path.isdir(f"{self.dir}/{old}"))

    def test_templates_made_from_it(self):
        self.template("x", "a")
        self.template("y", "b", **{"from": "x"})
        self.refused("x", "in use: template y")
        self.remove("y")
        self.remove("x")
        self.assertEqual(os.listdir(f"{self.dir}/refs"), [])

    def test_a_sandbox_created_during_removal_is_detected(self):
        digest = self.template("x", "a")
        answers = [[], ["sandbox late"]]
        used_by, build.used_by = build.used_by, lambda *_: answers.pop(0)
        self.addCleanup(setattr, build, "used_by", used_by)
        self.refused("x", "sandbox late")
        with open(f"{self.dir}/refs/x", encoding="ascii") as f:
            self.assertEqual(f.read(), f"1 {digest}\n")

    def test_what_a_kill_left_is_swept(self):
        self.template("x", "a")
        os.makedirs(f"{self.dir}/.staging-{'d' * 64}/tree")
        self.remove("x")
        self.assertEqual([n for n in os.listdir(self.dir) if n.startswith(".staging")], [])

    def test_a_database_that_cannot_be_read_stops_it(self):
        self.template("x", "a")
        self.daemon(1)
        with open(f"{self.dir}/state1/cay.db", "w", encoding="ascii") as f:
            f.write("no database " * 1000)
        self.refused("x", "cannot tell what")


class Trees(Case):
    def test_lines_are_escaped_and_sorted(self):
        (digest, files, size), text = self.manifest(self.tree())
        lines = [line for line in text.splitlines() if not line.startswith("meta ")]
        self.assertEqual((len(digest), files, size), (64, 5, 7))
        self.assertEqual([line.split()[-1] for line in lines],
                         ["/", "/dev", "/etc", "/etc/a\\x20file\\x0a", "/etc/link"])
        self.assertTrue(lines[4].startswith("l 0777 "))
        self.assertIn(" a\\x20file\\x0a ", lines[4])

    def test_content_mode_target_and_settings_count_but_times_do_not(self):
        root = self.tree()
        first = self.manifest(root)[0][0]
        os.utime(f"{root}/etc", (1, 1))
        self.assertEqual(self.manifest(root)[0][0], first)
        seen = {first}
        os.chmod(f"{root}/etc", 0o700)
        seen.add(self.manifest(root)[0][0])
        with open(f"{root}/etc/a file\n", "a", encoding="utf-8") as f:
            f.write("x")
        seen.add(self.manifest(root)[0][0])
        seen.add(self.manifest(root, self.recipe("env.A = 1\n"))[0][0])
        seen.add(self.manifest(root, name="y")[0][0])
        self.assertEqual(len(seen), 5)

    def test_devices_pipes_and_foreign_attributes(self):
        root = self.tree()
        os.setxattr(f"{root}/etc/a file\n", "user.overlay.opaque", b"y")
        self.manifest(root)
        self.assertEqual(os.listxattr(f"{root}/etc/a file\n"), [])
        os.mkfifo(f"{root}/etc/pipe")
        with self.assertRaises(build.Failure):
            self.manifest(root)

    @unittest.skipIf(os.geteuid(), "needs root")
    def test_accounts_and_cleaning(self):
        root = self.tree()
        os.mkfifo(f"{root}/dev/null")
        os.makedirs(f"{root}/etc/sudoers.d")
        os.symlink("/run/x", f"{root}/etc/resolv.conf")
        build.add_accounts(root, "/bin/sh")
        build.add_accounts(root, "/bin/sh")  # twice changes nothing
        os.makedirs(f"{root}/usr/local/bin")
        build.clean_tree(root)
        self.assertFalse(os.path.lexists(f"{root}/usr/local/bin/df"), "the image has no df")
        os.makedirs(f"{root}/usr/bin", exist_ok=True)
        os.symlink("busybox", f"{root}/usr/bin/df")
        build.clean_tree(root)
        build.clean_tree(root)
        self.assertEqual(os.readlink(f"{root}/usr/local/bin/df"), "/run/cay/tools")
        os.unlink(f"{root}/usr/local/bin/df")
        os.rmdir(f"{root}/usr/local/bin")
        os.symlink(self.dir, f"{root}/usr/local/bin")
        build.clean_tree(root)
        self.assertFalse(os.path.lexists(f"{self.dir}/df"), "nothing is made outside of the tree")
        with open(f"{root}/etc/passwd", encoding="utf-8") as f:
            self.assertEqual(f.read().split("\n"),
                             ["root:x:0:0:root:/root:/bin/sh",
                              "sandbox:x:1000:1000::/home/sandbox:/bin/sh",
                              "user:x:1001:1001::/home/user:/bin/sh", ""])
        self.assertEqual(os.stat(f"{root}/home/sandbox").st_uid, 1000)
        self.assertEqual(os.listdir(f"{root}/dev"), [])
        self.assertEqual(os.stat(f"{root}/tmp").st_mode & 0o7777, 0o1777)
        self.assertFalse(os.path.islink(f"{root}/etc/resolv.conf"))
        self.assertEqual(os.stat(f"{root}/etc/sudoers.d/cay").st_mode & 0o777, 0o440)


class Publishing(Case):
    def publish(self, content):
        os.makedirs(f"{self.dir}/refs", exist_ok=True)
        staging = tempfile.mkdtemp(prefix=".staging-", dir=self.dir)
        with open(f"{staging}/manifest", "w", encoding="utf-8") as f:
            f.write(content)
        digest = content * 64
        version = build.publish(self.dir, staging, "x", self.recipe("env.A = \"\n"), (digest, 1, 2))
        return version, digest, staging

    def test_versions_count_contents(self):
        for content, expected in (("a", 1), ("a", 1), ("b", 2), ("a", 3)):
            version, digest, _ = self.publish(content)
            self.assertEqual(version, expected)
            with open(f"{self.dir}/refs/x", encoding="ascii") as f:
                self.assertEqual(f.read(), f"{expected} {digest}\n")
            with open(f"{self.dir}/{digest}/meta.json", encoding="utf-8") as f:
                self.assertEqual(json.load(f)["env"], {"A": '"'})
        self.assertEqual(os.listdir(f"{self.dir}/refs"), ["x"])

    def test_leftovers_are_swept_and_nothing_else(self):
        _, digest, _ = self.publish("a")
        os.makedirs(f"{self.dir}/.staging-dead/tree")
        build.sweep(self.dir)
        self.assertNotIn(".staging-dead", os.listdir(self.dir))
        self.assertIn(digest, os.listdir(self.dir))

    def test_nothing_is_deleted_below_a_mount(self):
        os.makedirs(f"{self.dir}/.staging-dead/tree/dev/shm")
        real, build.mounts_below = build.mounts_below, lambda path: [f"{path}/tree/dev/shm"]
        self.addCleanup(setattr, build, "mounts_below", real)
        with self.assertRaises(build.Failure):
            build.sweep(self.dir)
        self.assertTrue(os.path.isdir(f"{self.dir}/.staging-dead/tree/dev/shm"))

    def test_a_broken_ref_is_not_overwritten(self):
        os.makedirs(f"{self.dir}/refs")
        with open(f"{self.dir}/refs/x", "w", encoding="ascii") as f:
            f.write("nonsense")
        with self.assertRaises(build.Failure):
            self.publish("a")


if __name__ == "__main__":
    unittest.main()
