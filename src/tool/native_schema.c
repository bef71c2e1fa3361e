/* What models and people are told of the native tools. box.md §10.1, §10.2. */
#include "tool/tool_private.h"

#define PATH(text) "\"path\":{\"type\":\"string\",\"description\":\"" text "\"}"
#define WHERE(text) \
    "\"path\":{\"type\":\"string\",\"default\":\"/workspace\",\"description\":\"" text "\"}"
#define OBJECT(required, properties)                                                    \
    "{\"type\":\"object\",\"required\":[" required "],\"properties\":{" properties "}," \
    "\"additionalProperties\":false}"

static const struct {
    const char *name, *human_desc, *description, *parameters;
} declared[] = {
    {
        "exec",
        "Run a command in isolation",
        "Runs a shell command in an isolated Linux sandbox and gives its output and exit code. Use "
        "it for shell work, Python scripts and exact calculation on the user's data. Files under "
        "/workspace stay between calls. The package of an activated skill is at "
        "/workspace/.skills/<name>: set workdir to it to run what it brings, one skill in each "
        "call. Prepare a new skill in a directory under /workspace first, then hand that to "
        "register_skill.",
        OBJECT("\"command\"",
               "\"command\":{\"type\":\"string\",\"description\":\"Shell command.\"},"
               "\"workdir\":{\"type\":\"string\",\"default\":\"/workspace\",\"description\":"
               "\"Directory to run it in, /workspace or below.\"},"
               "\"timeout_sec\":{\"type\":\"integer\",\"default\":30,\"minimum\":1,"
               "\"description\":\"Seconds after which it is ended.\"},"
               "\"env\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"},"
               "\"default\":{},\"description\":\"Environment variables to add.\"},"
               "\"description\":{\"type\":\"string\",\"description\":"
               "\"What it is for, in a few words; for the log only.\"}"),
    },
    {
        "read",
        "Read a workspace file",
        "Reads a text file by lines, a piece of any file as base64, or lists a directory. Long "
        "files come in parts: go on with next_offset or next_byte_offset. Files of visible skills "
        "are at /workspace/.skills/<name>/.",
        OBJECT(
            "\"path\"",
            PATH(
                "File or directory, /workspace or below.") ","
                                                           "\"offset\":{\"type\":\"integer\",\"default\":1,\"minimum\":1,"
                                                           "\"description\":\"First line, from 1.\"},"
                                                           "\"limit\":{\"type\":\"integer\",\"default\":2000,\"minimum\":1,\"maximum\":10000,"
                                                           "\"description\":\"Most lines.\"},"
                                                           "\"max_bytes\":{\"type\":\"integer\",\"default\":51200,\"minimum\":1,"
                                                           "\"maximum\":51200,\"description\":\"Most bytes.\"},"
                                                           "\"encoding\":{\"type\":\"string\",\"enum\":[\"text\",\"base64\"],"
                                                           "\"default\":\"text\"},"
                                                           "\"byte_offset\":{\"type\":\"integer\",\"default\":0,\"minimum\":0,"
                                                           "\"description\":\"First byte, with base64.\"}"),
    },
    {
        "write",
        "Write a workspace file",
        "Writes a file and makes the directories that it needs. An existing file is replaced, or "
        "continued with mode append. Files of activated skills are at "
        "/workspace/.skills/<name>/.",
        OBJECT(
            "\"path\",\"content\"",
            PATH(
                "File under /workspace.") ","
                                          "\"content\":{\"type\":\"string\"},"
                                          "\"encoding\":{\"type\":\"string\",\"enum\":[\"text\",\"base64\"],"
                                          "\"default\":\"text\"},"
                                          "\"mode\":{\"type\":\"string\",\"enum\":[\"overwrite\",\"append\"],"
                                          "\"default\":\"overwrite\"}"),
    },
    {
        "edit",
        "Edit a workspace file",
        "Replaces a piece of a text file. old_string must occur exactly once: give enough of what "
        "is around it. Files of activated skills are at /workspace/.skills/<name>/.",
        OBJECT(
            "\"path\",\"old_string\",\"new_string\"",
            PATH(
                "File under /workspace.") ","
                                          "\"old_string\":{\"type\":\"string\",\"description\":\"Text as it is now.\"},"
                                          "\"new_string\":{\"type\":\"string\",\"description\":\"Text in its place.\"}"),
    },
    {
        "glob",
        "Find files by pattern",
        "Finds files and directories by name, newest first, at most 100. Understands *, ?, [..] "
        "and **; a pattern without a directory matches at any depth. Visible skills are at "
        "/workspace/.skills/<name>/.",
        OBJECT("\"pattern\"",
               "\"pattern\":{\"type\":\"string\",\"description\":\"Such as **/*.py\"}," WHERE(
                   "Directory to search.")),
    },
    {
        "grep",
        "Search file contents by regex",
        "Searches files for lines that match a regular expression and gives file, line number and "
        "line. Visible skills are at /workspace/.skills/<name>/.",
        OBJECT(
            "\"pattern\"",
            "\"pattern\":{\"type\":\"string\",\"description\":\"Regular expression.\"}," WHERE(
                "File or directory to search.") ","
                                                "\"include\":{\"type\":\"string\",\"description\":"
                                                "\"Only files whose name matches, such as *.py\"}"),
    },
};

json_t *native_declarations(void)
{
    json_t *list = json_array();
    for (size_t i = 0; i < array_len(declared); i++) {
        struct error err;
        json_t *parameters = json_parse(str_c(declared[i].parameters), &err);
        json_t *tool = parameters ? json_pack("{s:s,s:s,s:s,s:o}", "name", declared[i].name,
                                              "description", declared[i].description, "human_desc",
                                              declared[i].human_desc, "parameters", parameters)
                                  : NULL;
        if (!tool || json_array_append_new(list, tool) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}
