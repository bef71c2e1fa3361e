/* The file tools read, write and edit: results, limits, boundaries. box.md §10.4 to §10.7, §14 I. */
#include "box/files_lab.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#define W "/workspace"

static void is(const json_t *r, const char *text)
{
    struct error bad = {0};
    auto_buf t = BUF(1 << 16);
    for (const char *p = text; *p; p++)
        buf_c(&t, *p == '\'' ? '"' : *p);
    auto_json want = json_parse_words(buf_view(&t), &bad);
    assert_non_null(want);
    const char *k;
    json_t *v;
    json_object_foreach (want, k, v) {
        if (!json_equal(json_object_get(r, k), v)) {
            char *got = json_dump_z(r, JSON_COMPACT);
            fail_msg("%s differs: %.500s", k, got);
        }
    }
}

#define reads(args, want)                               \
    do {                                                \
        auto_json r_ = lab_call(BOX_FILE_READ, (args)); \
        if (!r_)                                        \
            fail_msg("raised: %s", lab_err.msg);        \
        is(r_, (want));                                 \
    } while (0)

static void outside(void **state)
{
    static const char *const paths[] = {
        "/etc/passwd",
        "/",
        W "x",
        W "/../etc/passwd",
        W "/../../x",
        W "/a/../../etc",
        "relative",
        "../x",
        "/tmp/x",
        "//etc/passwd",
        "/proc/self/environ",
        " ",
        ".",
        W "/..",
    };
    char args[256];
    for (size_t i = 0; i < array_len(paths); i++) {
        for (int t = 0; t < BOX_FILE_TOOLS; t++) {
            snprintf(args, sizeof args,
                     "{'path':'%s','content':'x','old_string':'a','new_string':'b','pattern':'*x'}",
                     paths[i]);
            if (t == BOX_FILE_GREP)
                snprintf(args, sizeof args, "{'path':'%s','pattern':'x'}", paths[i]);
            lab_raises(t, args, "Path escapes the workspace boundary.");
        }
    }
    lab_raises(BOX_FILE_READ, "{'path':5}", "path must be a string");
    lab_raises(BOX_FILE_READ, "{}", "path must be a string");
    lab_raises(BOX_FILE_READ, "{'path':'" W "/a\\u0000b'}", "NUL");
}

static void odd_spellings(void **state)
{
    lab_text("a/f", "x\n");
    reads("{'path':'" W "/./a//b/../f'}", "{'ok':true,'content':'x'}");
    reads("{'path':'//workspace/a/f'}", "{'ok':true,'content':'x'}");
    reads("{'path':'" W "/a/'}", "{'ok':true,'is_directory':true,'content':'f'}");
    reads("{'path':''}", "{'ok':true,'is_directory':true,'content':'a'}");
    reads("{'path':'" W "/./x/../'}", "{'ok':true,'is_directory':true}");
}

static void links(void **state)
{
    static const char *const paths[] = {"file", "inner", "dir/passwd", "dir", "dir/new/x", "up/f"};
    lab_text("secret", "inner");
    assert_int_equal(symlink("/etc/passwd", lab_path("file")), 0);
    assert_int_equal(symlink("secret", lab_path("inner")), 0);
    assert_int_equal(symlink("/etc", lab_path("dir")), 0);
    assert_int_equal(symlink("..", lab_path("up")), 0);
    char args[256];
    for (int steps = 0; steps < 2; steps++) {
        files_without_openat2 = steps;
        for (size_t i = 0; i < array_len(paths); i++) {
            for (int t = 0; t <= BOX_FILE_EDIT; t++) {
                snprintf(args, sizeof args,
                         "{'path':'" W "/%s','content':'x','old_string':'root','new_string':'x'}",
                         paths[i]);
                lab_raises(t, args, "contains a symbolic link: " W "/");
            }
            snprintf(args, sizeof args, "{'path':'" W "/%s','pattern':'x'}", paths[i]);
            lab_raises(BOX_FILE_GREP, args, "contains a symbolic link");
            if (i >= 2)
                lab_raises(BOX_FILE_GLOB, args, "contains a symbolic link");
        }
    }
    files_without_openat2 = false;
    assert_string_equal(lab_get("secret"), "inner");
    assert_int_equal(access("/etc/new", F_OK), -1);
    auto_json g = lab_call(BOX_FILE_GLOB, "{'pattern':'**/*'}");
    is(g, "{'matches':['" W "/secret'],'total':1}");
    auto_json s = lab_call(BOX_FILE_GREP, "{'pattern':'root|inner'}");
    is(s, "{'matches':[{'file':'" W "/secret','line':1,'content':'inner'}]}");
}

static void missing(void **state)
{
    lab_text("f", "x");
    for (int steps = 0; steps < 2; steps++) {
        files_without_openat2 = steps;
        lab_fails(BOX_FILE_READ, "{'path':'" W "/none'}", "File not found: " W "/none");
        lab_fails(BOX_FILE_READ, "{'path':'" W "/none/x'}", "File not found: " W "/none/x");
        lab_fails(BOX_FILE_READ, "{'path':'" W "/f/g'}", "File not found: " W "/f/g");
        lab_fails(BOX_FILE_EDIT, "{'path':'" W "/no/x','old_string':'a','new_string':'b'}",
                  "File not found: " W "/no/x");
        lab_fails(BOX_FILE_GREP, "{'path':'" W "/none','pattern':'x'}",
                  "Path not found: " W "/none");
        lab_fails(BOX_FILE_GLOB, "{'path':'" W "/none','pattern':'x'}",
                  "Path is not a directory: " W "/none");
        lab_fails(BOX_FILE_GLOB, "{'path':'" W "/f','pattern':'x'}",
                  "Path is not a directory: " W "/f");
    }
    files_without_openat2 = false;
    char args[700];
    snprintf(args, sizeof args, "{'path':'" W "/%0300d'}", 1);
    auto_json r = lab_call(BOX_FILE_READ, args);
    assert_true(json_is_false(json_object_get(r, "ok")));
}

static void text(void **state)
{
    static const char mixed[] =
        "one\r\ntwo\rthree\n\nf\xC3\xBCnf \xE2\x82\xAC\xF0\x9F\x98\x80\n\xFF\n";
    lab_text("f", mixed);
    reads(
        "{'path':'" W "/f'}",
        "{'ok':true,'content':'one\\ntwo\\nthree\\n\\nf\\u00fcnf \\u20ac\\ud83d\\ude00\\n\\ufffd',"
        "'truncated':false,'truncated_by':null,'start_line':1,'end_line':6,'next_offset':null,"
        "'max_lines':2000,'max_bytes':51200}");
    lab_text("e", "");
    reads("{'path':'" W "/e'}", "{'ok':true,'content':'','truncated':false,'end_line':0}");
    lab_put("nul", "a\0b\n", 4);
    reads("{'path':'" W "/nul'}", "{'content':'a\\u0000b'}");
    lab_text("bad", "\xE2\x82x\xF0\x9F\x98\xC0\xED\xA0\x80");
    reads("{'path':'" W "/bad'}", "{'content':'\\ufffdx\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd'}");
}

static void parts(void **state)
{
    lab_text("f",
             "line 1\nline 2\nline 3\nline 4\nline 5\nline 6\nline 7\nline 8\nline 9\nline 10\n");
    reads("{'path':'" W "/f','offset':3,'limit':4}",
          "{'content':'line 3\\nline 4\\nline 5\\nline 6','truncated':true,'truncated_by':'lines',"
          "'start_line':3,'end_line':6,'next_offset':7,'max_lines':4}");
    reads("{'path':'" W "/f','offset':7,'limit':4}",
          "{'content':'line 7\\nline 8\\nline 9\\nline 10','truncated':false,'next_offset':null}");
    reads("{'path':'" W "/f','offset':100}", "{'ok':true,'content':'','truncated':false}");
    lab_text("b", "aaaa\nbbbb\ncccc\n");
    reads("{'path':'" W "/b','max_bytes':10}",
          "{'content':'aaaa\\nbbbb','truncated_by':'bytes','next_offset':3}");
    reads("{'path':'" W "/b','max_bytes':9}", "{'content':'aaaa','next_offset':2}");
    /* without an end the last line needs no room for one */
    lab_text("c", "aaaa\nbbbb");
    reads("{'path':'" W "/c','max_bytes':9}", "{'content':'aaaa\\nbbbb','truncated':false}");
}

static void long_line(void **state)
{
    static char big[130000];
    memset(big, 'x', sizeof big);
    big[60000] = '\n';
    lab_put("f", big, sizeof big);
    auto_json r = lab_call(BOX_FILE_READ, "{'path':'" W "/f'}");
    struct str hint = json_s(r, "content");
    is(r, "{'ok':true,'truncated':true,'truncated_by':'bytes','start_line':1,'next_offset':2}");
    assert_true(hint.n < 500 && hint.p[0] == '[');
    assert_non_null(strstr(hint.p, "Line 1 "));
    assert_non_null(strstr(hint.p, "51200"));
    auto_json second = lab_call(BOX_FILE_READ, "{'path':'" W "/f','offset':2,'max_bytes':7}");
    assert_non_null(strstr(json_z(second, "content"), "Line 2 "));
    /* exactly as much as fits */
    lab_put("e", big, 51199);
    reads("{'path':'" W "/e','limit':1}", "{'truncated':false,'end_line':1}");
    big[51199] = '\n';
    lab_put("e", big, 51200);
    reads("{'path':'" W "/e'}", "{'truncated':false,'end_line':1}");
}

/* Line ends at the border of the pieces in which a file is read. */
static void line_ends_at_borders(void **state)
{
    static char big[65536 * 2 + 10];
    for (int shift = -2; shift <= 2; shift++) {
        memset(big, '\n', sizeof big);
        size_t at = (size_t)(65536 + shift);
        big[at] = '\r';
        big[at + 1] = '\n';
        memcpy(big + at + 2, "end\n", 4);
        lab_put("f", big, at + 6);
        char args[128], want[128];
        snprintf(args, sizeof args, "{'path':'" W "/f','offset':%zu}", at + 2);
        snprintf(want, sizeof want, "{'content':'end','start_line':%zu,'truncated':false}", at + 2);
        reads(args, want);
    }
}

static void far_lines(void **state)
{
    lab_text("sparse", "x");
    assert_int_equal(truncate(lab_path("sparse"), INT64_C(600) << 20), 0);
    auto_json r = lab_call(BOX_FILE_READ, "{'path':'" W "/sparse','offset':2}");
    is(r, "{'ok':true,'content':''}"); /* one line only, however long */
    auto_json one = lab_call(BOX_FILE_READ, "{'path':'" W "/sparse'}");
    is(one, "{'ok':true,'truncated_by':'bytes'}");
}

static void odd_numbers(void **state)
{
    static const char *const odd[] = {
        "'offset':0",          "'offset':-3",      "'offset':'x'",      "'limit':0",
        "'limit':1e9",         "'limit':null",     "'max_bytes':1e300", "'max_bytes':'many'",
        "'encoding':'latin1'", "'byte_offset':-1", "'limit':[]",        "'offset':'1'",
        "'offset':1.9",        "'offset':true",
    };
    lab_text("f", "one\ntwo\n");
    for (size_t i = 0; i < array_len(odd); i++) {
        char args[128];
        snprintf(args, sizeof args, "{'path':'" W "/f',%s}", odd[i]);
        auto_json r = lab_call(BOX_FILE_READ, args);
        assert_true(json_is_true(json_object_get(r, "ok")));
        assert_int_equal(strncmp(json_z(r, "content"), "one", 3), 0);
    }
    reads("{'path':'" W "/f','offset':'2'}", "{'content':'two','start_line':2}");
    reads("{'path':'" W "/f','limit':99999}", "{'max_lines':10000}");
    reads("{'path':'" W "/f','max_bytes':99999}", "{'max_bytes':51200}");
}

static void bytes(void **state)
{
    unsigned char data[1024];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)i;
    lab_put("f", data, sizeof data);
    auto_arena a = arena_new(1 << 16);
    auto_json r = lab_call(BOX_FILE_READ, "{'path':'" W "/f','encoding':'base64'}");
    is(r, "{'ok':true,'encoding':'base64','byte_offset':0,'length':1024,'size_bytes':1024,"
          "'has_more':false,'max_bytes':51200}");
    assert_null(json_object_get(r, "next_byte_offset"));
    struct str got;
    struct error err = {0};
    assert_true(base64_decode(a, json_s(r, "content"), 2048, &got, &err));
    assert_int_equal(got.n, sizeof data);
    assert_memory_equal(got.p, data, sizeof data);
    reads("{'path':'" W "/f','encoding':'base64','byte_offset':1000,'max_bytes':10}",
          "{'content':'6Onq6+zt7u/w8Q==','has_more':true,'next_byte_offset':1010,'length':10}");
    reads("{'path':'" W "/f','encoding':'base64','byte_offset':5000}",
          "{'ok':true,'content':'','length':0,'has_more':false}");
}

static void directory(void **state)
{
    lab_text("d/b", "");
    lab_text("d/.h", "");
    lab_text("d/a/x", "");
    reads("{'path':'" W "/d'}", "{'ok':true,'content':'.h\\na\\nb','is_directory':true,'total':3,"
                                "'truncated':false,'truncated_by':null}");
    char name[300];
    for (int i = 0; i < 400; i++) {
        snprintf(name, sizeof name, "many/%0200d", i);
        lab_text(name, "");
    }
    auto_json r = lab_call(BOX_FILE_READ, "{'path':'" W "/many'}");
    is(r, "{'ok':true,'total':400,'truncated':true,'truncated_by':'bytes'}");
    assert_true(json_s(r, "content").n <= 51200);
    assert_int_equal(json_s(r, "content").n % 201, 200); /* whole names */
}

static void directory_of_many(void **state)
{
    char name[32];
    for (int i = 0; i < 10001; i++) {
        snprintf(name, sizeof name, "m/%d", i);
        if (i == 0)
            lab_text(name, "");
        else
            assert_int_equal(mknod(lab_path(name), S_IFREG | 0644, 0), 0);
    }
    reads("{'path':'" W "/m'}", "{'total':10001,'truncated':true,'truncated_by':'entries'}");
    unlink(lab_path("m/0"));
    reads("{'path':'" W "/m'}", "{'total':10000,'truncated':false}");
}

static void other_kinds(void **state)
{
    assert_int_equal(mkfifo(lab_path("pipe"), 0666), 0);
    for (int t = 0; t <= BOX_FILE_EDIT; t++)
        lab_raises(t, "{'path':'" W "/pipe','content':'x','old_string':'a','new_string':'b'}",
                   "Not a regular file");
    lab_raises(BOX_FILE_GREP, "{'path':'" W "/pipe','pattern':'x'}", "Not a regular file");
    auto_json r = lab_call(BOX_FILE_GREP, "{'pattern':'x'}");
    is(r, "{'ok':true,'matches':[]}");
    assert_int_equal(mkdir(lab_path("d"), 0777), 0);
    auto_json w = lab_call(BOX_FILE_WRITE, "{'path':'" W "/d','content':'x'}");
    assert_null(w);
    lab_raises(BOX_FILE_EDIT, "{'path':'" W "/d','old_string':'a','new_string':'b'}",
               "Not a regular file");
}

#define writes(args)                                     \
    do {                                                 \
        auto_json r_ = lab_call(BOX_FILE_WRITE, (args)); \
        if (!r_)                                         \
            fail_msg("raised: %s", lab_err.msg);         \
        is(r_, "{'ok':true}");                           \
        assert_int_equal(json_object_size(r_), 2);       \
    } while (0)

static void write_text(void **state)
{
    auto_json r = lab_call(BOX_FILE_WRITE, "{'path':'" W "/new/deep/f','content':'\\u00e9\\r\\n'}");
    is(r, "{'ok':true,'path':'" W "/new/deep/f'}");
    assert_string_equal(lab_get("new/deep/f"), "\xC3\xA9\r\n");
    writes("{'path':'" W "/new/deep/f','content':'x'}");
    assert_string_equal(lab_get("new/deep/f"), "x");
    writes("{'path':'" W "/new/deep/f','content':'yz','mode':'append'}");
    assert_string_equal(lab_get("new/deep/f"), "xyz");
    writes("{'path':'" W "/new/deep/f','content':'over','mode':'unheard-of'}");
    assert_string_equal(lab_get("new/deep/f"), "over");
    writes("{'path':'" W "/empty','content':''}");
    assert_string_equal(lab_get("empty"), "");
    lab_raises(BOX_FILE_WRITE, "{'path':'" W "/f'}", "content must be a string");
    lab_raises(BOX_FILE_WRITE, "{'path':'" W "/f','content':5}", "content must be a string");
    assert_string_equal(lab_get("f"), "(none)");
}

static void write_base64(void **state)
{
    writes("{'path':'" W "/f','content':'AP9h','encoding':'base64'}");
    writes("{'path':'" W "/f','content':'Yg==','encoding':'base64','mode':'append'}");
    struct stat st;
    assert_int_equal(stat(lab_path("f"), &st), 0);
    assert_int_equal(st.st_size, 4);
    auto_json r =
        lab_call(BOX_FILE_WRITE, "{'path':'" W "/bad/f','content':'!!','encoding':'base64'}");
    assert_true(json_is_false(json_object_get(r, "ok")));
    assert_int_equal(strncmp(json_z(r, "error"), "invalid base64 content: ", 24), 0);
    assert_string_equal(lab_get("bad/f"), "(none)");
    assert_int_equal(access(lab_path("bad"), F_OK), -1);
    writes("{'path':'" W "/t','content':'Yg==','encoding':'other'}");
    assert_string_equal(lab_get("t"), "Yg==");
}

static void write_workspace_itself(void **state)
{
    static const char *const paths[] = {W, W "/", "", W "/x/.."};
    char args[128];
    for (size_t i = 0; i < array_len(paths); i++) {
        snprintf(args, sizeof args, "{'path':'%s','content':'x'}", paths[i]);
        lab_raises(BOX_FILE_WRITE, args, "Path must reference a file under /workspace.");
    }
}

static void write_too_much(void **state)
{
    auto_json args = json_object();
    auto_buf big = BUF(BOX_FILE_WRITE_MAX + 1);
    assert_true(buf_reserve(&big, BOX_FILE_WRITE_MAX + 1));
    memset(big.p, 'x', BOX_FILE_WRITE_MAX + 1);
    json_set(args, "path", json_string(W "/f"));
    json_set(args, "content", json_stringn(big.p, BOX_FILE_WRITE_MAX + 1));
    auto_json r = box_file_run(lab_root, BOX_FILE_WRITE, args, &lab_err);
    is(r, "{'ok':false,'error':'Content exceeds the 10485760-byte limit of one write.'}");
    assert_string_equal(lab_get("f"), "(none)");
    json_set(args, "content", json_stringn(big.p, BOX_FILE_WRITE_MAX));
    auto_json fits = box_file_run(lab_root, BOX_FILE_WRITE, args, &lab_err);
    is(fits, "{'ok':true}");
}

static void edits_well(const char *args, const char *file, const char *want)
{
    auto_json r = lab_call(BOX_FILE_EDIT, args);
    if (!r)
        fail_msg("raised: %s", lab_err.msg);
    is(r, "{'ok':true}");
    assert_string_equal(lab_get(file), want);
}

#define edit(old, new_) "{'path':'" W "/f','old_string':'" old "','new_string':'" new_ "'}"

static void edit_unique(void **state)
{
    lab_text("f", "a \xC3\xA9 b\r\nlast");
    assert_int_equal(chmod(lab_path("f"), 0640), 0);
    edits_well(edit("\\u00e9 b", "\\u20ac"), "f", "a \xE2\x82\xAC\r\nlast");
    struct stat st;
    assert_int_equal(stat(lab_path("f"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    lab_fails(BOX_FILE_EDIT, edit("absent", "x"), "old_string not found in file.");
    lab_text("f", "aa ab aa");
    lab_fails(BOX_FILE_EDIT, edit("aa", "x"),
              "old_string matches 2 locations; provide a more unique string.");
    assert_string_equal(lab_get("f"), "aa ab aa");
    edits_well(edit(" ab ", ""), "f", "aaaa");
    lab_fails(BOX_FILE_EDIT, edit("", "x"),
              "old_string matches 5 locations; provide a more unique string.");
    lab_text("f", "");
    edits_well(edit("", "new"), "f", "new");
    lab_raises(BOX_FILE_EDIT, "{'path':'" W "/f','old_string':'a'}", "must be strings");
    lab_raises(BOX_FILE_EDIT, "{'path':'" W "','old_string':'a','new_string':'b'}",
               "Path must reference a file");
}

/* `read` shows \n only: what it showed is found. The rest of the file keeps its form. */
static void edit_across_crlf(void **state)
{
    lab_text("f", "one\r\ntwo\r\nthree\r\n");
    edits_well(edit("one\\ntwo", "1\\n2"), "f", "1\r\n2\r\nthree\r\n");
    edits_well(edit("2\\r\\nthree", "x"), "f", "1\r\nx\r\n");
}

static void edit_limits(void **state)
{
    static char big[BOX_FILE_EDIT_MAX + 2];
    memset(big, 'x', sizeof big);
    lab_put("f", big, BOX_FILE_EDIT_MAX + 1);
    lab_fails(BOX_FILE_EDIT, edit("x", "y"), "File exceeds the 1048576-byte edit limit.");
    big[0] = 'M';
    lab_put("f", big, 1048571);
    lab_fails(BOX_FILE_EDIT, edit("M", "yyyyyyy"), "Edited file exceeds the 1048576-byte limit.");
    auto_json r = lab_call(BOX_FILE_EDIT, edit("M", "yyyyyy"));
    is(r, "{'ok':true}");
}

/* Other names of the file see the change too; nothing is left beside it. */
static void edit_keeps_names(void **state)
{
    lab_text("f", "one");
    assert_int_equal(link(lab_path("f"), lab_path("g")), 0);
    edits_well(edit("one", "two"), "g", "two");
    unlink(lab_path("g"));
    edits_well(edit("two", "three"), "f", "three");
    reads("{'path':'" W "'}", "{'content':'f'}");
}

/* ---- races: a directory and a link change places while the tools work ------------------------------------------ */

static _Atomic bool racing;

static void *swap(void *arg)
{
    char a[128], b[128];
    snprintf(a, sizeof a, "%s/d", lab_dir);
    snprintf(b, sizeof b, "%s/other", lab_dir);
    while (racing)
        renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE);
    return NULL;
}

static void swapped_ancestor(void **state)
{
    char outer[64] = "/tmp/parley-outer-XXXXXX", file[96], args[256];
    assert_non_null(mkdtemp(outer));
    snprintf(file, sizeof file, "%s/f", outer);
    int fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_int_equal(write(fd, "SECRET", 6), 6);
    close(fd);
    lab_text("d/f", "inside");
    assert_int_equal(symlink(outer, lab_path("other")), 0);
    racing = true;
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, swap, NULL), 0);
    for (int i = 0; i < 3000; i++) {
        files_without_openat2 = i & 1;
        enum box_file_tool tool = (enum box_file_tool)(i % BOX_FILE_TOOLS);
        bool walk = tool == BOX_FILE_GLOB || tool == BOX_FILE_GREP;
        snprintf(args, sizeof args,
                 "{'path':'" W "/d%s','content':'inside','old_string':'inside','new_string':"
                 "'inside','pattern':'%s'}",
                 walk ? "" : "/f", tool == BOX_FILE_GLOB ? "*" : "SECRET");
        auto_json r = lab_call(tool, args);
        char *shown = r ? json_dump_z(r, 0) : NULL;
        assert_true(!shown || !strstr(shown, "SECRET\""));
        mem_free(shown);
    }
    racing = false;
    pthread_join(t, NULL);
    files_without_openat2 = false;
    fd = open(file, O_RDONLY | O_CLOEXEC);
    char got[16] = {0};
    assert_int_equal(read(fd, got, sizeof got), 6);
    assert_string_equal(got, "SECRET");
    close(fd);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(rmdir(outer), 0); /* nothing else was made there */
}

static size_t descriptors(void)
{
    size_t n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static void without_memory(void **state)
{
    static const char *const calls[BOX_FILE_TOOLS] = {
        "{'path':'" W "/a/f'}", "{'path':'" W "/a/g','content':'x'}",
        "{'path':'" W "/a/f','old_string':'two','new_string':'two'}", "{'pattern':'*'}",
        "{'pattern':'two'}"};
    lab_text("a/f", "one\ntwo\n");
    size_t open_before = descriptors();
    for (int t = 0; t < BOX_FILE_TOOLS; t++) {
        auto_json args = NULL;
        auto_buf text = BUF(1024);
        for (const char *p = calls[t]; *p; p++)
            buf_c(&text, *p == '\'' ? '"' : *p);
        args = json_parse(buf_view(&text), &lab_err);
        bool done = false;
        for (long n = 1; !done && n < 400; n++) {
            long live = mem_live();
            mem_fail_after(n, true);
            json_t *r = box_file_run(lab_root, t, args, &lab_err);
            mem_fail_after(0, false);
            done = r && json_is_true(json_object_get(r, "ok"));
            assert_true(r || lab_err.code != ERR_NONE);
            json_decref(r);
            assert_true(labs(mem_live() - live) <= 64); /* blocks that jansson keeps */
        }
        assert_true(done);
    }
    assert_int_equal(descriptors(), open_before);
}

static void summaries(void **state)
{
    auto_arena a = arena_new(1 << 16);
    auto_json args = json_pack("{s:s,s:s,s:s,s:s}", "path", W "/f", "content", "secret words",
                               "old_string", "secret", "pattern", "p");
    assert_true(str_eqz(box_file_summary(a, BOX_FILE_WRITE, args),
                        "path=\"" W "/f\" content_bytes=12 old_string_bytes=6"));
    assert_true(str_find(box_file_summary(a, BOX_FILE_GREP, args), S("pattern=\"p\"")) > 0);
    assert_string_equal(box_file_tool_name(BOX_FILE_EDIT), "edit");
}

int main(void)
{
    base_init();
    log_setup(LOG_ERROR, false, -1);
#define T(f) cmocka_unit_test_setup_teardown(f, lab_begin, lab_end)
    const struct CMUnitTest tests[] = {
        T(outside),
        T(odd_spellings),
        T(links),
        T(missing),
        T(text),
        T(parts),
        T(long_line),
        T(line_ends_at_borders),
        T(far_lines),
        T(odd_numbers),
        T(bytes),
        T(directory),
        T(directory_of_many),
        T(other_kinds),
        T(write_text),
        T(write_base64),
        T(write_workspace_itself),
        T(write_too_much),
        T(edit_unique),
        T(edit_across_crlf),
        T(edit_limits),
        T(edit_keeps_names),
        T(swapped_ancestor),
        T(without_memory),
        T(summaries),
    };
    return cmocka_run_group_tests_name("box/files", tests, NULL, NULL);
}
