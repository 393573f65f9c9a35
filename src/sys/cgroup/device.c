/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device control on v2, which has no device controller: the kernel runs a BPF program of a group at
 * every open and mknod of a device below it. One program at cay-N serves all slots. It is the
 * second barrier: device nodes cannot be created inside, and every mount that a sandbox can write
 * to is nodev.
 */
#include <errno.h>
#include <linux/bpf.h>
#include <string.h>
#include <sys/syscall.h>

#include "sys/cgroup/cgroup.h"

#define ANY_MINOR UINT32_MAX

/* The devices that every sandbox may open: null, zero, full, random, urandom, tty, ptmx, pts. */
static const struct {
	uint32_t major_number, minor_number;
} allowed[] = { { 1, 3 }, { 1, 5 }, { 1, 7 }, { 1, 8 },
		{ 1, 9 }, { 5, 0 }, { 5, 2 }, { 136, ANY_MINOR } };

#define INSTRUCTIONS_MAX 48

struct program {
	struct bpf_insn code[INSTRUCTIONS_MAX];
	uint32_t count;
};

static void add(struct program *p, uint8_t code, uint8_t dst, uint8_t src, int16_t off, int32_t imm)
{
	p->code[p->count++] = (struct bpf_insn){
		.code = code, .dst_reg = dst & 0xf, .src_reg = src & 0xf, .off = off, .imm = imm
	};
}

static void add_return(struct program *p, int32_t value)
{
	add(p, BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, value);
	add(p, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
}

static void add_load(struct program *p, uint8_t dst, size_t offset)
{
	add(p, BPF_LDX | BPF_MEM | BPF_W, dst, BPF_REG_1, (int16_t)offset, 0);
}

/* R2: type, R4: major, R5: minor. Each rule returns 1 or continues with the next. */
static void build(struct program *p)
{
	add_load(p, BPF_REG_2, offsetof(struct bpf_cgroup_dev_ctx, access_type));
	/* the upper half is the access */
	add(p, BPF_ALU | BPF_AND | BPF_K, BPF_REG_2, 0, 0, 0xffff);
	add_load(p, BPF_REG_4, offsetof(struct bpf_cgroup_dev_ctx, major));
	add_load(p, BPF_REG_5, offsetof(struct bpf_cgroup_dev_ctx, minor));
	add(p, BPF_JMP | BPF_JEQ | BPF_K, BPF_REG_2, 0, 2, BPF_DEVCG_DEV_CHAR);
	add_return(p, 0);
	for (size_t i = 0; i < ARRAY_LEN(allowed); i++) {
		bool any = allowed[i].minor_number == ANY_MINOR;

		add(p, BPF_JMP | BPF_JNE | BPF_K, BPF_REG_4, 0, any ? 2 : 3,
		    (int32_t)allowed[i].major_number);
		if (!any)
			add(p, BPF_JMP | BPF_JNE | BPF_K, BPF_REG_5, 0, 2,
			    (int32_t)allowed[i].minor_number);
		add_return(p, 1);
	}
	add_return(p, 0);
}

static int bpf(int command, union bpf_attr *attr)
{
	long r = syscall(SYS_bpf, command, attr, sizeof(*attr));

	return r < 0 ? -errno : (int)r;
}

int cgroup_limit_devices(int group_fd)
{
	struct program program = { .count = 0 };
	_cleanup_close_ int fd = -1;
	union bpf_attr attr;

	static_assert(9 + 4 * ARRAY_LEN(allowed) + 2 <= INSTRUCTIONS_MAX, "the program fits");
	build(&program);
	memset(&attr, 0, sizeof(attr));
	attr.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE;
	attr.insns = (uint64_t)(uintptr_t)program.code;
	attr.insn_cnt = program.count;
	attr.license = (uint64_t)(uintptr_t) "Apache-2.0";
	fd = bpf(BPF_PROG_LOAD, &attr);
	if (fd < 0)
		return fd;
	/*
	 * Without flags the program replaces the one that an earlier warden attached, and groups
	 * below cannot attach another.
	 */
	memset(&attr, 0, sizeof(attr));
	attr.target_fd = (uint32_t)group_fd;
	attr.attach_bpf_fd = (uint32_t)fd;
	attr.attach_type = BPF_CGROUP_DEVICE;
	return bpf(BPF_PROG_ATTACH, &attr);
}
