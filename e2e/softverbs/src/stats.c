/* One JSON file a process under $SOFTVERBS_STATS, replaced as a whole: the proof of what was moved. */
#include "softverbs.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void write_device(FILE *file, struct sv_device *device)
{
    struct sv_counters *count = &device->count;
    fprintf(file, "\n  \"%s\": {\"state\": \"%s\"", device->ibv.name,
            ibv_port_state_str((enum ibv_port_state)sv_port_of(device).state));
    const struct { const char *name; _Atomic uint64_t *value; } lines[] = {
        {"tx_bytes", &count->tx_bytes}, {"rx_bytes", &count->rx_bytes}, {"tx_wrs", &count->tx_wrs},
        {"rx_wrs", &count->rx_wrs}, {"wc_errors", &count->wc_errors}, {"mrs", &count->mrs},
        {"mr_bytes", &count->mr_bytes}, {"qps", &count->qps}};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        fprintf(file, ", \"%s\": %" PRIu64, lines[i].name, atomic_load(lines[i].value));
    fprintf(file, "}");
}

void sv_stats_write(void)
{
    const char *folder = getenv("SOFTVERBS_STATS");
    char host[64] = "", path[PATH_MAX], fresh[PATH_MAX + 4];
    if (!folder)
        return;
    gethostname(host, sizeof host - 1);
    snprintf(path, sizeof path, "%s/%s-%d.json", folder, host, getpid());
    snprintf(fresh, sizeof fresh, "%s.new", path);
    FILE *file = fopen(fresh, "we");
    if (!file)
        return;
    fprintf(file, "{\"pid\": %d, \"devices\": {", getpid());
    for (int i = 0; i < sv_device_count; i++) {
        fprintf(file, "%s", i ? "," : "");
        write_device(file, &sv_devices[i]);
    }
    fprintf(file, "\n}}\n");
    fclose(file);
    rename(fresh, path);
}
