/* Part of store.h: object storage, local files under data/storage. persistence-and-ops.md §9, http-api.md §7. */
#ifndef PARLEY_STORE_OBJECTS_H
#define PARLEY_STORE_OBJECTS_H

/* ---- object storage: local files under data/storage (§9) --------------------------------------------------------------------------------------------- */
struct objects;
/* root: the data directory's "storage"; max_bytes: of one object, read and written. */
struct objects *objects_new(const char *root, int64_t max_bytes, const char *instance,
                            const struct fence *f, struct error *err);
void objects_free(struct objects *o);
/* owner_type "upload_image" | "upload_document" | "bot_log" …; key in `key` (arena). Limits: storage.max_object_read_bytes. */
bool objects_put(struct objects *o, const struct scope *s, const char *owner_type, struct str owner,
                 struct str suffix, struct str data, struct arena *a, struct str *key,
                 struct error *err) warn_unused;
/* Reads only keys of this scope and one of the owner types (NULL-terminated). ERR_NOT_FOUND otherwise. */
bool objects_get(struct objects *o, const struct scope *s, struct str key,
                 const char *const *owner_types, struct arena *a, struct str *data,
                 struct error *err) warn_unused;
bool objects_delete(struct objects *o, const struct scope *s, struct str key,
                    struct error *err) warn_unused;
/* Total bytes and files below the scope's prefix, and uploads older than `before_us` (at most limit): {size_bytes, file_count,
 * candidates:[{key,size_bytes,modified_at}]}; `remove` deletes those. Blocking work is done on a worker. */
json_t *objects_survey(struct objects *o, const struct scope *s, int64_t before_us, int64_t limit,
                       bool remove, struct error *err);

#endif
