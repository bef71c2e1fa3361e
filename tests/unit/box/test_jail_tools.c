/* Common tools inside the jail with its usual settings, without a network. Those that this machine does not have
 * are named and passed over. */
#include "box/jail_lab.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static const struct {
    const char *tool, *cmd, *out;
} tools[] = {
    {"python3",
     "python3 -c 'import ssl, sqlite3, ctypes; from multiprocessing import Pool; "
     "print(sum(Pool(2).map(abs, [-1, -2])))'",
     "3"},
    {"pip", "pip list >/dev/null 2>&1 && echo listed", "listed"},
    {"node", "node -e 'console.log(6 * 7)'", "42"},
    {"npm",
     "mkdir dep app && (cd dep && npm init -y >/dev/null) && cd app && npm init -y >/dev/null && "
     "npm install --offline --no-audit --no-fund ../dep >/dev/null && ls node_modules",
     "dep"},
    {"git",
     "git init -q g && cd g && git config user.email a@b && git config user.name a && "
     "echo x > f && git add f && git commit -qm m && git clone -q . ../g2 && cat ../g2/f",
     "x"},
    {"gcc", "printf '#include <stdio.h>\\nint main(){puts(\"hi\");}' > a.c && gcc a.c -o a && ./a",
     "hi"},
    {"dpkg", "dpkg -l >/dev/null && dpkg -S /bin/ls", "coreutils: /bin/ls"},
    {"apt-cache", "apt-cache policy dpkg | head -1", "dpkg:"},
    {"tar", "echo x > t && tar czf t.tgz t && rm t && tar xzf t.tgz && cat t", "x"},
    {"perl", "perl -e 'print 6 * 7'", "42"},
    {"script", "script -qc 'tty >/dev/null && echo terminal' /dev/null | tr -d '\\r'", "terminal"},
    {"ps", "ps ax | grep -c 'box-[z]ygote'", "1"},
};

static void all(struct lab *lab)
{
    struct box_mount m = {lab->shared_fd, lab->shared, "/workspace", BOX_MOUNT_RW};
    struct box_session_spec spec = lab_spec(lab);
    spec.primary = &m;
    spec.memory_mb = 1024;
    spec.pids_limit = 128;
    void *s = lab_start(lab, &spec);
    for (size_t i = 0; i < array_len(tools); i++) {
        char cmd[600];
        snprintf(cmd, sizeof cmd, "command -v %s >/dev/null", tools[i].tool);
        if (lab_exec(lab, s, cmd).code != 0) {
            print_message("not on this machine: %s\n", tools[i].tool);
            continue;
        }
        snprintf(cmd, sizeof cmd, "mkdir %s && cd %s && %s", tools[i].tool, tools[i].tool,
                 tools[i].cmd);
        struct said r = lab_exec_ms(lab, s, cmd, 100000);
        if (r.code != 0 || strcmp(r.out, tools[i].out) != 0)
            fail_msg("%s: %d %s %s", tools[i].tool, r.code, r.out, r.err);
    }
    lab->b->stop_session(s);
}

static void test_tools(void **st)
{
    lab_run(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tools)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
