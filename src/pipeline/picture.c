/* A long answer as a picture: black on white, with the font file that the pipeline names. pipeline.md §7.9. The libraries are loaded at
 * the first picture: most installations never make one. Runs on a worker. */
#include "pipeline/engine.h"

#include <dlfcn.h>
#include <pthread.h>

enum {
    WIDTH = 800,
    FONT = 32,
    LINE = 35,
    MARGIN_X = 20,
    MARGIN_Y = 30,
    HEIGHT_MIN = 280,
    HEIGHT_EXTRA = 65,
    CHARS_MAX = 100000,
    LINES_MAX = 256,
    PIXELS_MAX = 8000000,
    FILE_MAX = 10 << 20,
    FORMAT_RGB24 = 1,
};

/* ---- lines ----------------------------------------------------------------------------------------------------------- */

static bool digit(const char *p)
{
    return *p >= '0' && *p <= '9';
}

/* Bytes of the next line: what fits, at least one character; a number is not torn if it can begin the next line. */
static size_t line_length(struct str text, double width, picture_advance *advance, void *arg)
{
    double used = 0;
    size_t at = 0, run = 0; /* run: where the digits that end at `at` begin */
    while (at < text.n && text.p[at] != '\n') {
        struct str c = utf8_cut(str_sub(text, at, text.n), 1);
        if (c.n == 0)
            c = str_sub(text, at, 1);
        if (!digit(text.p + at))
            run = at + c.n;
        used += advance(arg, c);
        if (used > width && at > 0)
            return digit(text.p + at) && run > 0 ? run : at;
        at += c.n;
    }
    return at;
}

size_t picture_lines(struct str text, double width, picture_advance *advance, void *arg,
                     struct str *lines, size_t max)
{
    size_t n = 0;
    while (text.n) {
        size_t len = line_length(text, width, advance, arg);
        if (n == max)
            return max + 1;
        lines[n++] = str_sub(text, 0, len);
        if (len < text.n && text.p[len] == '\n')
            len++;
        text = str_sub(text, len, text.n);
    }
    return n;
}

/* ---- the libraries ------------------------------------------------------------------------------------------------------ */

struct extents {
    double x_bearing, y_bearing, width, height, x_advance, y_advance;
};
struct library {
    bool tried, ready;
    void *ft;
    int (*ft_init)(void **library);
    int (*ft_face)(void *library, const char *path, long index, void **face);
    int (*ft_done)(void *face);
    void *(*surface)(int format, int width, int height);
    void *(*create)(void *surface);
    void (*color)(void *cr, double r, double g, double b);
    void (*paint)(void *cr);
    void *(*face)(void *ft_face, int flags);
    int (*face_data)(void *face, const void *key, void *data, void (*destroy)(void *));
    void (*face_free)(void *face);
    void (*use_face)(void *cr, void *face);
    void (*size)(void *cr, double size);
    void (*measure)(void *cr, const char *text, struct extents *out);
    void (*move)(void *cr, double x, double y);
    void (*show)(void *cr, const char *text);
    int (*status)(void *cr);
    int (*png)(void *surface, int (*write)(void *arg, const unsigned char *p, unsigned n),
               void *arg);
    void (*destroy)(void *cr);
    void (*surface_free)(void *surface);
};

static struct library lib;
static pthread_mutex_t lib_lock =
    PTHREAD_MUTEX_INITIALIZER; /* fonts and faces are not made for several threads */

static bool find(void *handle, const char *name, void *out)
{
    void *p = handle ? dlsym(handle, name) : NULL;
    memcpy(out, &p, sizeof p); /* C has no cast from an object to a function */
    return p != NULL;
}

static bool library_load(void)
{
    if (lib.tried)
        return lib.ready;
    lib.tried = true;
    void *ft = dlopen("libfreetype.so.6", RTLD_NOW), *cairo = dlopen("libcairo.so.2", RTLD_NOW);
    lib.ready =
        find(ft, "FT_Init_FreeType", &lib.ft_init) && find(ft, "FT_New_Face", &lib.ft_face) &&
        find(ft, "FT_Done_Face", &lib.ft_done) &&
        find(cairo, "cairo_image_surface_create", &lib.surface) &&
        find(cairo, "cairo_create", &lib.create) &&
        find(cairo, "cairo_set_source_rgb", &lib.color) && find(cairo, "cairo_paint", &lib.paint) &&
        find(cairo, "cairo_ft_font_face_create_for_ft_face", &lib.face) &&
        find(cairo, "cairo_font_face_set_user_data", &lib.face_data) &&
        find(cairo, "cairo_font_face_destroy", &lib.face_free) &&
        find(cairo, "cairo_set_font_face", &lib.use_face) &&
        find(cairo, "cairo_set_font_size", &lib.size) &&
        find(cairo, "cairo_text_extents", &lib.measure) &&
        find(cairo, "cairo_move_to", &lib.move) && find(cairo, "cairo_show_text", &lib.show) &&
        find(cairo, "cairo_status", &lib.status) &&
        find(cairo, "cairo_surface_write_to_png_stream", &lib.png) &&
        find(cairo, "cairo_destroy", &lib.destroy) &&
        find(cairo, "cairo_surface_destroy", &lib.surface_free) && lib.ft_init(&lib.ft) == 0;
    return lib.ready;
}

static void face_done(void *ft_face)
{
    lib.ft_done(ft_face);
}

/* ---- drawing ------------------------------------------------------------------------------------------------------------ */

struct sheet {
    void *surface, *cr;
};

static bool sheet_open(struct sheet *s, int height, void *face)
{
    s->surface = lib.surface(FORMAT_RGB24, WIDTH, height);
    s->cr = lib.create(s->surface);
    lib.color(s->cr, 1, 1, 1);
    lib.paint(s->cr);
    lib.color(s->cr, 0, 0, 0);
    lib.use_face(s->cr, face);
    lib.size(s->cr, FONT);
    return lib.status(s->cr) == 0;
}

static void sheet_close(struct sheet *s)
{
    lib.destroy(s->cr);
    lib.surface_free(s->surface);
}

static double advance(void *arg, struct str c)
{
    struct sheet *s = arg;
    char z[8] = "";
    struct extents e = {0};
    memcpy(z, c.p, c.n < sizeof z ? c.n : sizeof z - 1);
    lib.measure(s->cr, z, &e);
    return e.x_advance;
}

static int png_part(void *arg, const unsigned char *p, unsigned n)
{
    return buf_add(arg, p, n) ? 0 : 1;
}

static bool draw(void *face, const struct str *lines, size_t n, struct arena *a, struct buf *png)
{
    struct sheet s;
    int height = (int)n * LINE + HEIGHT_EXTRA;
    bool ok = sheet_open(&s, height < HEIGHT_MIN ? HEIGHT_MIN : height, face);
    for (size_t i = 0; ok && i < n; i++) {
        lib.move(s.cr, MARGIN_X, MARGIN_Y + FONT * 0.8 + (double)(LINE * i));
        lib.show(s.cr, str_z(a, lines[i]));
    }
    ok = ok && lib.status(s.cr) == 0 && lib.png(s.surface, png_part, png) == 0;
    sheet_close(&s);
    return ok && !png->failed;
}

static const char *picture(struct str text, void *face, struct arena *a, struct buf *png)
{
    struct str *lines = arena_alloc(a, LINES_MAX * sizeof *lines);
    struct sheet s;
    if (!lines)
        return "out of memory";
    bool ok = sheet_open(&s, 1, face);
    size_t n = ok ? picture_lines(text, WIDTH - 80, advance, &s, lines, LINES_MAX) : 0;
    sheet_close(&s);
    if (!ok)
        return "the font cannot be used";
    if (n > LINES_MAX || ((int64_t)n * LINE + HEIGHT_EXTRA) * WIDTH > PIXELS_MAX)
        return "the text has more than 256 lines";
    return draw(face, lines, n, a, png) ? NULL : "drawing failed";
}

/* Valid text without what a font has no picture for: cairo would refuse all of it for one bad byte. */
static struct str printable(struct arena *a, struct str text)
{
    struct str s = utf8_clean(a, text);
    char *p = s.p ? arena_alloc(a, s.n + 1) : NULL;
    if (!p)
        return STR_NONE;
    for (size_t i = 0; i < s.n; i++)
        p[i] = s.p[i] != '\n' && ((unsigned char)s.p[i] < 0x20 || s.p[i] == 0x7f) ? ' ' : s.p[i];
    return str_n(p, s.n);
}

bool long_text_picture(struct str text, const char *font, struct arena *a, struct str *uri,
                       char why[200])
{
    static const char key;
    auto_buf png = BUF(FILE_MAX);
    void *ft_face = NULL;
    const char *failed = NULL;
    if (utf8_count(text) > CHARS_MAX)
        failed = "the text has more than 100,000 characters";
    text = failed ? STR_NONE : printable(a, text);
    if (!failed && !text.p)
        failed = "out of memory";
    pthread_mutex_lock(&lib_lock);
    if (!failed && !library_load())
        failed = "libcairo and libfreetype are not installed";
    if (!failed && lib.ft_face(lib.ft, font, 0, &ft_face) != 0)
        failed = "the font file (output.long-text-processing.font-path) is unreadable";
    void *face = failed ? NULL : lib.face(ft_face, 0);
    if (face && lib.face_data(face, &key, ft_face, face_done) != 0) {
        lib.ft_done(ft_face);
        failed = "out of memory";
    }
    if (!failed)
        failed = picture(text, face, a, &png);
    if (face)
        lib.face_free(face);
    pthread_mutex_unlock(&lib_lock);
    struct str text64 = failed ? STR_NONE : base64_encode(a, buf_view(&png));
    *uri = text64.p ? str_fmt(a, "data:image/png;base64," STR_FMT, STR_ARG(text64)) : STR_NONE;
    if (uri->p && uri->n)
        return true;
    snprintf(why, 200, "%s", failed ? failed : "out of memory");
    return false;
}
