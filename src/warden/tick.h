#ifndef TICK_H
#define TICK_H
#include <time.h>
#include <stdio.h>
struct tick{const char*n;unsigned long c,ns;}; extern struct tick ticks_[64]; extern int tickn_;
static inline unsigned long tick_now(void){struct timespec t;clock_gettime(CLOCK_THREAD_CPUTIME_ID,&t);return (unsigned long)t.tv_sec*1000000000ul+(unsigned long)t.tv_nsec;}
static inline int tick_id(const char*n){for(int i=0;i<tickn_;i++)if(ticks_[i].n==n)return i;ticks_[tickn_].n=n;return tickn_++;}
#define T(name, expr) ({ unsigned long t0_=tick_now(); __typeof__(expr) r_=(expr); int i_=tick_id(name); ticks_[i_].c++; ticks_[i_].ns+=tick_now()-t0_; r_; })
#define TV(name, expr) do { unsigned long t0_=tick_now(); (expr); int i_=tick_id(name); ticks_[i_].c++; ticks_[i_].ns+=tick_now()-t0_; } while(0)
static inline void tick_dump(void){FILE*f=fopen("/dev/stderr","w");(void)f;for(int i=0;i<tickn_;i++)fprintf(stderr,"TICK %-22s n %6lu avg %8.1f us total %8.1f ms\n",ticks_[i].n,ticks_[i].c,(double)ticks_[i].ns/1000/(double)ticks_[i].c,(double)ticks_[i].ns/1e6);}
#endif
