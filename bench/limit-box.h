/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One isolated sandbox made with plain system calls: the minimum work of any engine with the same
 * isolation. No code of the product is used here, so that its figures can be compared with this.
 */
#ifndef CAY_BENCH_LIMIT_BOX_H
#define CAY_BENCH_LIMIT_BOX_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define BOX_CONTROLLERS 5 /* cpu, memory, pids, freezer, devices */
#define BOX_OUTPUT_MAX 4096
#define BOX_MARKS_MAX 40

/* Time stamps of the steps, taken by parent and child, which share memory until the exec. */
struct box_marks {
	bool on;
	unsigned count;
	const char *name[BOX_MARKS_MAX];
	uint64_t at_ns[BOX_MARKS_MAX];
};

/* Created once, before anything is timed. */
struct box_host {
	const char *template_dir, *storage_dir, *init_path;
	const char *storage_kind; /* kind of the upper's file system, for the report */
	bool ready_parts;	  /* namespaces and cgroups are taken from prepared stock */
	int template_fd, storage_fd, proc_fd;
	int cgroup_root_fd, cgroup_fd[BOX_CONTROLLERS];
	unsigned numbers; /* boxes have numbers below this */
	pid_t alive;	  /* the box to kill if we fail in the middle */
	char cgroup_name[64];
	struct sock_fprog filter;
	struct box_marks marks;
};

/* The parts of a box that can be created in advance. */
struct box_parts {
	unsigned number;
	int user_fd; /* user namespace with the private range */
	int net_fd;  /* -1: the clone makes one */
	int tasks_fd[BOX_CONTROLLERS];
};

struct box {
	struct box_parts parts;
	pid_t pid;
	int pid_fd, control_fd, child_fd;
	int upper_fd, work_fd;
};

struct box_result {
	int status;
	size_t output_len;
	char output[BOX_OUTPUT_MAX];
};

uint64_t box_now_ns(void);
extern bool box_in_child; /* the vforked child must not run the parent's cleanup */

void box_mark(struct box_host *host, const char *name);
void box_die(const char *what) __attribute__((noreturn));

void box_host_open(struct box_host *host);
void box_host_close(struct box_host *host);

void box_parts_make(struct box_host *host, struct box_parts *parts, unsigned number);
void box_create(struct box_host *host,
		struct box *box); /* parts are set; returns when init replies */
void box_exec(struct box *box, const char *request, size_t len, struct box_result *result);
void box_destroy(struct box_host *host, struct box *box);

struct sock_fprog box_filter(void);
int box_lo_up(void);

#endif
