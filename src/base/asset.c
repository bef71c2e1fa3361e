/* asset: looks up what the build put into the binary. */
#include "base/base.h"

const struct base_asset *base_asset_find(const char *path)
{
    size_t low = 0, high = base_asset_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int order = strcmp(path, base_assets[mid].path);
        if (order == 0) {
            return &base_assets[mid];
        }
        if (order < 0) {
            high = mid;
        } else {
            low = mid + 1;
        }
    }
    return NULL;
}
