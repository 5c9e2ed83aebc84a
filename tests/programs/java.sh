#!/usr/bin/env bash
# OpenJDK: a program of eight threads that fills and sorts collections, compresses, and calls a native library (JNI), which
# allocates, resizes and frees, some of it in other threads than it was allocated in.
. "$(dirname "$0")/common.sh"
need javac default-jdk-headless
need java default-jdk-headless
need cc gcc
cat >"$work/Main.java" <<'JAVA'
import java.util.*;
import java.util.concurrent.*;
import java.util.zip.*;

public class Main {
    static native long make(int size, byte fill);
    static native long grow(long block, int size);
    static native byte[] take(long block);
    static final int ROUNDS = Integer.parseInt(System.getProperty("rounds"));

    static long work(int seed, BlockingQueue<Long> queue) throws Exception {
        long sum = 0;
        Random random = new Random(seed);
        for (int round = 0; round < ROUNDS; round++) {
            TreeMap<String, byte[]> map = new TreeMap<>();
            for (int i = 0; i < 2000; i++) map.put(Integer.toString(random.nextInt(), 36), new byte[random.nextInt(2000)]);
            for (Map.Entry<String, byte[]> e : map.entrySet()) sum = sum * 31 + e.getKey().hashCode() + e.getValue().length;
            byte[] text = new byte[300000];
            for (int i = 0; i < text.length; i++) text[i] = (byte) random.nextInt(16);
            Deflater deflater = new Deflater(6);
            deflater.setInput(text);
            deflater.finish();
            byte[] small = new byte[400000];
            int length = deflater.deflate(small);
            deflater.end();
            Inflater inflater = new Inflater();
            inflater.setInput(small, 0, length);
            byte[] again = new byte[300000];
            inflater.inflate(again);
            inflater.end();
            if (!Arrays.equals(text, again)) throw new Exception("inflated otherwise");
            for (int i = 0; i < 300; i++) queue.put(grow(make(1 + i * 37, (byte) i), 1 + i * 59));
            for (int i = 0; i < 300; i++) sum += Arrays.hashCode(take(queue.take())) & 0;
            sum += length;
        }
        return sum;
    }

    public static void main(String[] words) throws Exception {
        System.load(words[0]);
        BlockingQueue<Long> queue = new LinkedBlockingQueue<>();
        ExecutorService pool = Executors.newFixedThreadPool(8);
        List<Future<Long>> sums = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            int seed = i;
            sums.add(pool.submit(() -> work(seed, queue)));
        }
        for (Future<Long> sum : sums) System.out.println(sum.get());
        pool.shutdown();
        System.out.println("left: " + queue.size());
    }
}
JAVA
cat >"$work/native.c" <<'C'
#include <jni.h>
#include <stdlib.h>
#include <string.h>

struct block {
    int size, filled;
    unsigned char bytes[];
};

JNIEXPORT jlong JNICALL Java_Main_make(JNIEnv *env, jclass class, jint size, jbyte fill) {
    (void)env, (void)class;
    struct block *b = malloc(sizeof *b + (size_t)size);
    b->size = b->filled = size;
    memset(b->bytes, fill, (size_t)size);
    return (jlong)b;
}

JNIEXPORT jlong JNICALL Java_Main_grow(JNIEnv *env, jclass class, jlong block, jint size) {
    (void)env, (void)class;
    struct block *b = realloc((void *)block, sizeof *b + (size_t)size);
    b->size = size;
    memset(b->bytes + b->filled, 7, (size_t)(size - b->filled));
    return (jlong)b;
}

JNIEXPORT jbyteArray JNICALL Java_Main_take(JNIEnv *env, jclass class, jlong block) {
    (void)class;
    struct block *b = (void *)block;
    for (int i = 1; i < b->filled; i++) {
        if (b->bytes[i] != b->bytes[0]) abort();
    }
    for (int i = b->filled; i < b->size; i++) {
        if (b->bytes[i] != 7) abort();
    }
    jbyteArray array = (*env)->NewByteArray(env, b->size);
    (*env)->SetByteArrayRegion(env, array, 0, b->size, (jbyte *)b->bytes);
    free(b);
    return array;
}
C
home=$(dirname "$(dirname "$(readlink -f "$(command -v javac)")")")
cc -shared -fPIC -O1 -I"$home/include" -I"$home/include/linux" -o "$work/libnative.so" "$work/native.c"
javac -d "$work" "$work/Main.java"
active java -version
rounds=10
[ "$long" != long ] || rounds=400
for collector in Serial G1 Parallel; do
    same "java-$collector" timeout 900 java -Drounds=$rounds -Xmx300m -XX:+Use${collector}GC -cp "$work" Main "$work/libnative.so"
done
