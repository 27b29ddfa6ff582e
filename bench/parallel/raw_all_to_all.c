/*
 * What an exchange costs in C in which every rank has bytes of its own for each, by MPI's own
 * collective: the sizes of test/support/mpi/to_all_times.ts, one line of JSON with microseconds.
 *
 * The wait gives way to other processes, as ours does.
 */
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(int size, int bytes, int rounds) {
  char *part = calloc(size, bytes), *into = calloc(size, bytes);
  double *taken = malloc(rounds * sizeof(double));
  int *counts = malloc(size * sizeof(int)), *places = malloc(size * sizeof(int));
  for (int i = 0; i < size; i++) counts[i] = bytes, places[i] = i * bytes;
  for (int round = -5; round < rounds; round++) {
    MPI_Request request;
    int done = 0;
    double begun = MPI_Wtime();
    MPI_Ialltoallv(part, counts, places, MPI_BYTE, into, counts, places, MPI_BYTE, MPI_COMM_WORLD, &request);
    for (MPI_Test(&request, &done, MPI_STATUS_IGNORE); !done; MPI_Test(&request, &done, MPI_STATUS_IGNORE))
      sched_yield();
    if (round >= 0) taken[round] = 1e6 * (MPI_Wtime() - begun);
  }
  qsort(taken, rounds, sizeof(double), ascending);
  double middle = taken[rounds / 2];
  free(part), free(into), free(taken), free(counts), free(places);
  return middle;
}

/* What MPI_Finalize says last: mpiexec ends all other ranks by force when one goes without. */
static void sign_off(void) {
  static const char said[] = "cmd=finalize\n";
  const char *fd = getenv("PMI_FD");
  char answer[256];
  if (fd == NULL || write(atoi(fd), said, sizeof said - 1) < 0) return;
  if (read(atoi(fd), answer, sizeof answer) < 0) return;
}

int main(int argc, char **argv) {
  int rank, size;
  const int sizes[] = {64, 16384, 262144, 1048576};
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int i = 0; i < 4; i++) {
    int rounds = 67108864 / (sizes[i] * size);
    double time = median(size, sizes[i], rounds < 20 ? 20 : rounds > 300 ? 300 : rounds);
    if (rank == 0) printf("%s%f%s", i ? "," : "[", time, i < 3 ? "" : "]\n");
  }
  fflush(stdout);
  MPI_Barrier(MPI_COMM_WORLD);
  usleep(200000);
  sign_off();
  _exit(0);
}
