#include "box/files_lab.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <unistd.h>

char lab_dir[64];
int lab_root = -1;
struct error lab_err;

int lab_begin(void **state)
{
    snprintf(lab_dir, sizeof lab_dir, "/tmp/parley-files-XXXXXX");
    assert_non_null(mkdtemp(lab_dir));
    lab_root = open(lab_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_true(lab_root >= 0);
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    return remove(path);
}

int lab_end(void **state)
{
    close(lab_root);
    return nftw(lab_dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *lab_path(const char *name)
{
    static char path[4][8192];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[0], "%s/%s", lab_dir, name);
    return path[turn];
}

void lab_put(const char *name, const void *data, size_t n)
{
    char dir[8192];
    snprintf(dir, sizeof dir, "%s", lab_path(name));
    for (char *p = dir + strlen(lab_dir) + 1; (p = strchr(p, '/')); p++) {
        *p = '\0';
        mkdir(dir, 0777);
        *p = '/';
    }
    int fd = open(dir, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, n), n);
    close(fd);
}

const char *lab_get(const char *name)
{
    static char text[2 << 20];
    int fd = open(lab_path(name), O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return "(none)";
    ssize_t n = 0, got;
    while ((got = read(fd, text + n, sizeof text - 1 - (size_t)n)) > 0)
        n += got;
    close(fd);
    text[n] = '\0';
    return text;
}

json_t *lab_call(enum box_file_tool t, const char *args)
{
    auto_buf text = BUF(4 << 20);
    struct error bad = {0};
    for (const char *p = args; *p; p++)
        buf_c(&text, *p == '\'' ? '"' : *p);
    auto_json parsed = json_parse_words(buf_view(&text), &bad);
    if (!parsed)
        fail_msg("%s: %s", bad.msg, args);
    return box_file_run(lab_root, t, parsed, &lab_err);
}

void lab_raises(enum box_file_tool t, const char *args, const char *words)
{
    auto_json r = lab_call(t, args);
    if (r || !strstr(lab_err.msg, words))
        fail_msg("%s %s: %s", box_file_tool_name(t), args, r ? "no error" : lab_err.msg);
}

void lab_fails(enum box_file_tool t, const char *args, const char *error)
{
    auto_json r = lab_call(t, args);
    if (!r)
        fail_msg("%s %s raised: %s", box_file_tool_name(t), args, lab_err.msg);
    assert_true(json_is_false(json_object_get(r, "ok")));
    assert_string_equal(json_z(r, "error"), error);
    assert_int_equal(json_object_size(r), 2);
}
