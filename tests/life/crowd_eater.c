/* A library that takes THREAD_LOCAL_BYTES of the process's static thread-local storage, and does nothing else.  See
 * load_and_unload.c. */
extern _Thread_local char eaten[THREAD_LOCAL_BYTES];
__attribute__((tls_model("initial-exec"))) _Thread_local char eaten[THREAD_LOCAL_BYTES];

char *crowd_eater(void);
char *crowd_eater(void) {
    eaten[0]++;
    return eaten;
}
