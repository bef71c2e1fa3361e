/*
 * Build-time program: packs trees of files into one object of the program.
 *
 *   embed --depfile D --out assets.c assets_blob.S assets.bin [--panel DIR] [--tree PREFIX DIR]...
 *
 * Every file of a --tree becomes the asset "PREFIX/path", stored as it is; every file of --panel becomes "web/path",
 * compressed with gzip where that makes it smaller. Hidden files and notes (*.md) stay out. Each asset is followed by a
 * NUL byte that its size does not count,
 * so that text can be handed to parsers that want a C string. The table is sorted by path (bytewise), for bsearch.
 * Where the panel was not built, one page that says so stands in for it.
 *
 * Directories are written to the depfile beside the files: a file that comes or goes changes the time of its directory.
 */
#include <dirent.h>
#include <errno.h>
#include <openssl/evp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

struct asset {
    char *path;          /* in the table */
    unsigned char *data; /* as it will be embedded */
    size_t size;
    bool gzip;
    char etag[35]; /* half of the SHA-256 of the embedded bytes, in hexadecimal, in quotes */
    size_t offset; /* in the blob */
};

static struct asset *assets;
static size_t asset_count;
static FILE *depfile;

static const char panel_missing[] =
    "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Parley</title>"
    "<body style=\"font:16px/1.5 sans-serif;margin:4rem auto;max-width:40rem\">"
    "<h1>Parley is running</h1><p>This build has no panel: it was compiled before the panel was built. "
    "<code>make run</code> builds both. The HTTP API works.</p></body></html>\n";

__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    fputs("embed: ", stderr);
    vfprintf(stderr, format, ap);
    fputc('\n', stderr);
    va_end(ap);
    exit(1);
}

static void *allocate(void *old, size_t size)
{
    void *p = realloc(old, size);
    if (!p)
        fail("out of memory");
    return p;
}

static char *join(const char *a, const char *b)
{
    size_t size = strlen(a) + strlen(b) + 2;
    char *s = allocate(NULL, size);
    snprintf(s, size, "%s/%s", a, b);
    return s;
}

/* A dependency, with the characters that make treats specially escaped. */
static void depend(const char *path)
{
    fputs(" \\\n ", depfile);
    for (; *path; path++) {
        if (strchr(" #$", *path))
            fputc(*path == '$' ? '$' : '\\', depfile);
        fputc(*path, depfile);
    }
}

/* Compresses without name and time, so that equal input gives an equal program. False where it would not be smaller. */
static bool compress_gzip(const unsigned char *in, size_t size, unsigned char **out,
                          size_t *out_size)
{
    z_stream z = {0};
    if (deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY) != Z_OK)
        fail("zlib");
    size_t bound = deflateBound(&z, size) + 32;
    *out = allocate(NULL, bound);
    z.next_in = (unsigned char *)(size_t)in;
    z.avail_in = (unsigned)size;
    z.next_out = *out;
    z.avail_out = (unsigned)bound;
    if (deflate(&z, Z_FINISH) != Z_STREAM_END)
        fail("zlib");
    *out_size = z.total_out;
    deflateEnd(&z);
    if (*out_size < size - size / 16)
        return true;
    free(*out);
    return false;
}

/* Takes over path and data. */
static void add(char *path, unsigned char *data, size_t size, bool compress)
{
    struct asset a = {.path = path, .data = data, .size = size};
    unsigned char *packed, digest[EVP_MAX_MD_SIZE];
    size_t packed_size;
    if (compress && size > 0 && compress_gzip(data, size, &packed, &packed_size)) {
        free(data);
        a.data = packed;
        a.size = packed_size;
        a.gzip = true;
    }
    if (!EVP_Digest(a.data, a.size, digest, NULL, EVP_sha256(), NULL))
        fail("sha256");
    for (size_t i = 0; i < 16; i++)
        snprintf(a.etag + 1 + 2 * i, 3, "%02x", digest[i]);
    a.etag[0] = a.etag[33] = '"';
    assets = allocate(assets, (asset_count + 1) * sizeof *assets);
    assets[asset_count++] = a;
}

static void add_file(const char *file, const char *path, size_t size, bool compress)
{
    FILE *f = fopen(file, "rb");
    unsigned char *data = allocate(NULL, size + 1);
    if (!f || fread(data, 1, size, f) != size)
        fail("%s: cannot be read", file);
    fclose(f);
    depend(file);
    char *copy = strdup(path);
    if (!copy)
        fail("out of memory");
    add(copy, data, size, compress);
}

/* False where there is no such directory. */
static bool add_tree(const char *dir, const char *prefix, bool compress)
{
    DIR *d = opendir(dir);
    if (!d) {
        if (errno != ENOENT)
            fail("%s: %s", dir, strerror(errno));
        /* It may come: then its parent changes. */
        char *parent = strdup(dir), *slash = parent ? strrchr(parent, '/') : NULL;
        if (slash && slash != parent) {
            *slash = 0;
            struct stat st;
            if (stat(parent, &st) == 0)
                depend(parent);
        }
        free(parent);
        return false;
    }
    depend(dir);
    for (struct dirent *e; (e = readdir(d));) {
        size_t length = strlen(e->d_name);
        if (e->d_name[0] == '.' || (length > 3 && !strcmp(e->d_name + length - 3, ".md")))
            continue;
        char *file = join(dir, e->d_name), *path = join(prefix, e->d_name);
        struct stat st;
        if (stat(file, &st) != 0)
            fail("%s: %s", file, strerror(errno));
        if (S_ISDIR(st.st_mode))
            add_tree(file, path, compress);
        else if (S_ISREG(st.st_mode))
            add_file(file, path, (size_t)st.st_size, compress);
        free(file);
        free(path);
    }
    closedir(d);
    return true;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct asset *)a)->path, ((const struct asset *)b)->path);
}

static FILE *create(const char *path)
{
    FILE *f = fopen(path, "wb");
    if (!f)
        fail("%s: %s", path, strerror(errno));
    return f;
}

static void finish(FILE *f, const char *path)
{
    if (ferror(f) || fclose(f) != 0)
        fail("%s: cannot be written", path);
}

static void write_blob(const char *path)
{
    static const unsigned char zero[16];
    FILE *f = create(path);
    size_t at = 0;
    for (size_t i = 0; i < asset_count; i++) {
        size_t pad = 16 - assets[i].size % 16; /* at least the NUL */
        assets[i].offset = at;
        fwrite(assets[i].data, 1, assets[i].size, f);
        fwrite(zero, 1, pad, f);
        at += assets[i].size + pad;
    }
    fwrite(zero, 1, sizeof zero, f); /* never empty */
    finish(f, path);
}

static void write_assembly(const char *path, const char *blob)
{
    FILE *f = create(path);
    fprintf(f,
            "    .section .rodata\n"
            "    .balign 16\n"
            "    .globl base_asset_blob\n"
            "    .hidden base_asset_blob\n"
            "    .type base_asset_blob, %%object\n"
            "base_asset_blob:\n"
            "    .incbin \"%s\"\n"
            "    .size base_asset_blob, . - base_asset_blob\n"
            "    .section .note.GNU-stack,\"\",%%progbits\n",
            blob);
    finish(f, path);
}

static void write_table(const char *path)
{
    FILE *f = create(path);
    fputs("/* Written by tools/embed.c. */\n"
          "#include \"base/base.h\"\n\n"
          "extern const unsigned char base_asset_blob[];\n\n"
          "const struct base_asset base_assets[] = {\n",
          f);
    for (size_t i = 0; i < asset_count; i++) {
        fputs("    {.path = \"", f);
        for (const char *p = assets[i].path; *p; p++) {
            if (*p == '"' || *p == '\\')
                fputc('\\', f);
            fputc(*p, f);
        }
        fprintf(
            f,
            "\",\n     .data = base_asset_blob + %zu,\n     .size = %zu,\n     .etag = \"\\%.33s\\\"\",\n     .gzip = %s},\n",
            assets[i].offset, assets[i].size, assets[i].etag, assets[i].gzip ? "true" : "false");
    }
    fprintf(f, "};\n\nconst size_t base_asset_count = %zu;\n", asset_count);
    finish(f, path);
}

int main(int argc, char **argv)
{
    const char *dep = NULL, *table = NULL, *assembly = NULL, *blob = NULL;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--depfile") && i + 1 < argc) {
            dep = argv[++i];
        } else if (!strcmp(argv[i], "--out") && i + 3 < argc) {
            table = argv[++i];
            assembly = argv[++i];
            blob = argv[++i];
            if (!dep)
                fail("--depfile comes first");
            depfile = create(dep);
            fprintf(depfile, "%s %s %s:", table, assembly, blob);
        } else if (!strcmp(argv[i], "--panel") && i + 1 < argc && depfile) {
            add_tree(argv[++i], "web", true);
        } else if (!strcmp(argv[i], "--tree") && i + 2 < argc && depfile) {
            add_tree(argv[i + 2], argv[i + 1], false);
            i += 2;
        } else {
            fail("cannot use the argument %s", argv[i]);
        }
    }
    if (!blob)
        fail("--out is missing");

    bool panel = false;
    for (size_t i = 0; i < asset_count; i++)
        panel |= !strcmp(assets[i].path, "web/index.html");
    if (!panel) {
        char *path = strdup("web/index.html");
        unsigned char *page = allocate(NULL, sizeof panel_missing);
        memcpy(page, panel_missing, sizeof panel_missing);
        add(path, page, sizeof panel_missing - 1, false);
    }
    qsort(assets, asset_count, sizeof *assets, by_path);
    write_blob(blob);
    write_assembly(assembly, blob);
    write_table(table);
    fputc('\n', depfile);
    finish(depfile, dep);
    return 0;
}
